/* 16-bit floats in portable C, rounding to nearest even as the hardware does. */
#ifndef DUOTAIL_HALF_H
#define DUOTAIL_HALF_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float dt_half_to_float(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, rest = half & 0x7fff;
    uint32_t bits;
    if (rest >= 0x7c00)
        bits = 0x7f800000 | (rest & 0x3ff) << 13;
    else if (rest >= 0x400)
        bits = (rest << 13) + 0x38000000;
    else { /* subnormal: exact in fp32 */
        const float small = (float)rest * 0x1p-24f;
        memcpy(&bits, &small, 4);
    }
    bits |= sign;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static inline uint16_t dt_float_to_half(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* the result is subnormal */
        float magnitude;
        memcpy(&magnitude, &rest, 4);
        return (uint16_t)(sign | (uint32_t)lrintf(magnitude * 0x1p24f));
    }
    return (uint16_t)(sign | (rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13);
}

#endif
