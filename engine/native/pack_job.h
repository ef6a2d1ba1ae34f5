/* What pack.c and the packers of the instruction sets share. */
#ifndef DUOTAIL_PACK_JOB_H
#define DUOTAIL_PACK_JOB_H

#include "internal.h"
#include "pack.h"

#include <stdatomic.h>

/* `source` holds rows first..first+count-1 of a matrix [rows, cols]. */
typedef struct {
    const void *source;
    uint8_t *out;
    int32_t type, format, first, count, rows, cols;
    atomic_int damaged; /* set when a weight or scale is not a finite number */
} dt_pack_job;

/* Blocks of rows first + 16 * index .. + 15. The same bits on every instruction set. */
typedef void dt_packer(dt_pack_job *job, int32_t index);

/* pack: from floats, with scales that are found. repack: `source` is ggml's blocks of `format`. */
typedef struct dt_packers { dt_packer *pack, *repack; } dt_packers;
extern const dt_packers dt_packers_portable, dt_packers_avx2, dt_packers_avx512, dt_packers_neon;

static inline uint16_t dt_float_to_bfloat(float value)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float dt_bfloat_to_float(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float value;
    __builtin_memcpy(&value, &bits, 4);
    return value;
}

#endif
