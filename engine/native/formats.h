/* The formats of quantised weights: what a weight is made of, and where its bits lie.
 *
 * Weights lie in blocks of 16 rows ("lanes") and 32 columns, or 256 columns where eight times 32 share
 * two levels of scales. A block takes what ggml's blocks of those rows take: first the codes of each
 * 32 columns, then the scales.
 *
 * Codes. A code of 2, 3, 4, 5, 6 or 8 bits is cut into planes of 4, 2 and 1 bits (or one of 8), lowest
 * bits first. A plane consists of vectors of 64 bytes; byte r * 4 + c of them belongs to row r and to
 * the columns 4 g + c, where g = 0..7 are the groups of four columns:
 *   8 bits: vector g                     4 bits: vector g % 4, nibble g / 4
 *   2 bits: vector g / 4, pair g % 4     1 bit:  the only vector, bit g
 *
 * A weight is (code - bias) * scale + offset, or with the table's number of the code instead.
 */
#ifndef DUOTAIL_FORMATS_H
#define DUOTAIL_FORMATS_H

#include "duotail.h"

/* What stands for a code. */
enum { LINEAR, IQ4_TABLE, E2M1_TABLE };

/* What scales there are: fp16 ones of 16 rows, and smaller integers for 32 or for 16 columns.
 *                 16 rows take            scale of a weight       offset                          */
enum {
    ONE_SCALE,  /* d                       d                                                       */
    SCALE_MIN,  /* d, m                    d                       m                               */
    EXPONENT,   /* 8 bits e                2^(e - 128)                                             */
    SIX_MIN,    /* d, m, 16 x 6 bits       d * s[j]                -m * s[8 + j]  (j-th 32)        */
    SIX_OF_32,  /* d, 8 x 6 bits           d * (s[j] - 32)                                         */
    SIX_OF_16,  /* d, 16 x 6 bits          d * (s[j] - 32)                        (j-th 16)        */
    BYTE_OF_16, /* d, 16 x 8 bits signed   d * s[j]                                                */
    NIBBLES_OF_16, /* d, m, 16 x 8 bits    d * (s[j] & 15)         -m * (s[j] >> 4)                */
};

typedef struct {
    int8_t bits, table, scales;
    uint8_t bias;
} dt_format;

static const dt_format dt_formats[DT_FORMATS] = {
    [DT_Q4] = {4, LINEAR, ONE_SCALE, 8},
    [DT_Q8] = {8, LINEAR, ONE_SCALE, 0},
    [DT_Q4_1] = {4, LINEAR, SCALE_MIN, 0},
    [DT_Q5_0] = {5, LINEAR, ONE_SCALE, 16},
    [DT_Q5_1] = {5, LINEAR, SCALE_MIN, 0},
    [DT_Q2_K] = {2, LINEAR, NIBBLES_OF_16, 0},
    [DT_Q3_K] = {3, LINEAR, SIX_OF_16, 4},
    [DT_Q4_K] = {4, LINEAR, SIX_MIN, 0},
    [DT_Q5_K] = {5, LINEAR, SIX_MIN, 0},
    [DT_Q6_K] = {6, LINEAR, BYTE_OF_16, 32},
    [DT_IQ4_NL] = {4, IQ4_TABLE, ONE_SCALE, 0},
    [DT_IQ4_XS] = {4, IQ4_TABLE, SIX_OF_32, 0},
    [DT_MXFP4] = {4, E2M1_TABLE, EXPONENT, 0},
};

static const int8_t dt_tables[3][16] = {
    [IQ4_TABLE] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    [E2M1_TABLE] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, /* doubled */
};

#define DT_INLINE static inline __attribute__((always_inline))

DT_INLINE int dt_is_quantised(int32_t format) { return dt_formats[format].bits != 0; }

/* Columns that share a block's scales. */
DT_INLINE int32_t dt_block_cols(int32_t format)
{
    return dt_formats[format].scales >= SIX_MIN ? 8 * DT_BLOCK : DT_BLOCK;
}

/* Bytes of the codes of 32 columns. */
DT_INLINE int32_t dt_code_bytes(int32_t format) { return dt_formats[format].bits * 64; }

/* Bytes of a block's scales. */
DT_INLINE int32_t dt_scale_bytes(int32_t format)
{
    static const int16_t bytes[] = {
        [ONE_SCALE] = 32,       [SCALE_MIN] = 64,       [EXPONENT] = 16,        [SIX_MIN] = 64 + 192,
        [SIX_OF_32] = 32 + 96,  [SIX_OF_16] = 32 + 192, [BYTE_OF_16] = 32 + 256, [NIBBLES_OF_16] = 64 + 256,
    };
    return bytes[dt_formats[format].scales];
}

DT_INLINE int32_t dt_block_bytes(int32_t format)
{
    return dt_block_cols(format) / DT_BLOCK * dt_code_bytes(format) + dt_scale_bytes(format);
}

/* Whether codes times the integer scales of their 16 columns fit a byte, so that products are of these. */
DT_INLINE int dt_scaled_codes(int32_t format)
{
    return dt_formats[format].scales == SIX_OF_16 || dt_formats[format].scales == NIBBLES_OF_16;
}

/* Whether products have sums of 16 columns, each with a scale of its own. */
DT_INLINE int dt_in_halves(int32_t format) { return dt_formats[format].scales == BYTE_OF_16; }

/* Whether there is an offset (two fp16 scales). */
DT_INLINE int dt_has_offset(int32_t format)
{
    const int scales = dt_formats[format].scales;
    return scales == SCALE_MIN || scales == SIX_MIN || scales == NIBBLES_OF_16;
}

/* The smaller scales, one byte each: s[entry * 16 + row]. Of 16 times 6 bits, three quarters lie in
 * the low bits of 3 x 64 bytes and the last one in their high bits; of 8 times 6 bits, the low nibbles
 * lie in 64 bytes and the rest in 32. */
DT_INLINE void dt_open_scales(const int32_t format, const uint8_t *p, uint8_t s[256])
{
    const int scales = dt_formats[format].scales;
    p += dt_has_offset(format) ? 64 : 32;
    if (scales == SIX_MIN || scales == SIX_OF_16) {
        for (int i = 0; i < 192; i++) s[i] = p[i] & 63;
        for (int i = 0; i < 64; i++)
            s[192 + i] = (uint8_t)(p[i] >> 6 | p[64 + i] >> 6 << 2 | p[128 + i] >> 6 << 4);
    } else if (scales == SIX_OF_32) {
        for (int i = 0; i < 32; i++) {
            const uint8_t high = p[64 + i];
            s[i] = (uint8_t)((p[i] & 15) | (high & 3) << 4);
            s[32 + i] = (uint8_t)((p[32 + i] & 15) | (high >> 2 & 3) << 4);
            s[64 + i] = (uint8_t)(p[i] >> 4 | (high >> 4 & 3) << 4);
            s[96 + i] = (uint8_t)(p[32 + i] >> 4 | high >> 6 << 4);
        }
    } else if (scales >= BYTE_OF_16)
        for (int i = 0; i < 256; i++) s[i] = p[i];
}

/* Their inverse. */
DT_INLINE void dt_close_scales(const int32_t format, const uint8_t s[256], uint8_t *p)
{
    const int scales = dt_formats[format].scales;
    p += dt_has_offset(format) ? 64 : 32;
    if (scales == SIX_MIN || scales == SIX_OF_16)
        for (int i = 0; i < 64; i++) {
            p[i] = (uint8_t)(s[i] | s[192 + i] << 6);
            p[64 + i] = (uint8_t)(s[64 + i] | s[192 + i] >> 2 << 6);
            p[128 + i] = (uint8_t)(s[128 + i] | s[192 + i] >> 4 << 6);
        }
    else if (scales == SIX_OF_32)
        for (int i = 0; i < 32; i++) {
            p[i] = (uint8_t)((s[i] & 15) | s[64 + i] << 4);
            p[32 + i] = (uint8_t)((s[32 + i] & 15) | s[96 + i] << 4);
            p[64 + i] = (uint8_t)(s[i] >> 4 | s[32 + i] >> 4 << 2 | s[64 + i] >> 4 << 4 | s[96 + i] >> 4 << 6);
        }
    else if (scales >= BYTE_OF_16)
        for (int i = 0; i < 256; i++) p[i] = s[i];
}

/* A format that is known to the compiler makes a function of its own of what is inlined with it. */
#define FOR_ALL_QUANTISED(DO)                                                                      \
    DO(Q4) DO(Q8) DO(Q4_1) DO(Q5_0) DO(Q5_1) DO(Q2_K) DO(Q3_K) DO(Q4_K) DO(Q5_K) DO(Q6_K) DO(IQ4_NL) \
    DO(IQ4_XS) DO(MXFP4)
#define FOR_ALL_FORMATS(DO) FOR_ALL_QUANTISED(DO) DO(BF16) DO(F16) DO(F32)

#endif
