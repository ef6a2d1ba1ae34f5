/* Products of packed weights with rows of activations. Included by kernels.h. */

/* ---- integer dot products of one block: 16 weight rows x 32 columns with one activation row - */

/* Q4 block: 4 x 64 bytes of nibbles, then 16 fp16 scales. Byte r * 4 + c of group q holds column
 * q * 4 + c (low nibble) and (q + 4) * 4 + c (high nibble) of row r; a nibble is weight + 8.
 * Q8 block: 8 x 64 bytes, byte r * 4 + c of group q holds column q * 4 + c of row r; 16 scales. */

#if DT_ISA == 2

typedef struct { __m512i w[8]; v16 scale; } weights32;

static inline weights32 load_q4(const uint8_t *p)
{
    const __m512i nibble = _mm512_set1_epi8(15);
    weights32 block;
    for (int q = 0; q < 4; q++) {
        __m512i both = _mm512_loadu_si512(p + q * 64);
        block.w[q] = _mm512_and_si512(both, nibble);
        block.w[q + 4] = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
    }
    block.scale = v_load_f16((const uint16_t *)(p + 256));
    return block;
}

static inline weights32 load_q8(const uint8_t *p)
{
    weights32 block;
    for (int q = 0; q < 8; q++) /* signed to unsigned: + 128, taken back through the block's sum */
        block.w[q] = _mm512_xor_si512(_mm512_loadu_si512(p + q * 64), _mm512_set1_epi8(-128));
    block.scale = v_load_f16((const uint16_t *)(p + 512));
    return block;
}

static inline v16i dot32(const weights32 *block, const int8_t *a, int32_t start)
{
    const int32_t *four = (const int32_t *)a;
    __m512i c = _mm512_set1_epi32(start);
    for (int q = 0; q < 8; q++) c = _mm512_dpbusd_epi32(c, block->w[q], _mm512_set1_epi32(four[q]));
    return c;
}

#define Q4_START(start) (start)
#define Q8_START(start) (16 * (start))

#elif DT_ISA == 1

typedef struct { __m256i w[8][2]; v16 scale; int is_signed; } weights32;

static inline weights32 load_q4(const uint8_t *p)
{
    const __m256i nibble = _mm256_set1_epi8(15);
    weights32 block;
    for (int q = 0; q < 4; q++)
        for (int half = 0; half < 2; half++) {
            __m256i both = _mm256_loadu_si256((const void *)(p + q * 64 + half * 32));
            block.w[q][half] = _mm256_and_si256(both, nibble);
            block.w[q + 4][half] = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
        }
    block.scale = v_load_f16((const uint16_t *)(p + 256));
    block.is_signed = 0;
    return block;
}

static inline weights32 load_q8(const uint8_t *p)
{
    weights32 block;
    for (int q = 0; q < 8; q++)
        for (int half = 0; half < 2; half++)
            block.w[q][half] = _mm256_loadu_si256((const void *)(p + q * 64 + half * 32));
    block.scale = v_load_f16((const uint16_t *)(p + 512));
    block.is_signed = 1;
    return block;
}

/* maddubs adds pairs in 16 bits: 2 * 15 * 127 and 2 * 128 * 127 both fit, so nothing saturates. */
static inline v16i dot32(const weights32 *block, const int8_t *a, int32_t start)
{
    const __m256i ones = _mm256_set1_epi16(1);
    const int32_t *four = (const int32_t *)a;
    v16i c = vi_set1(start);
    for (int q = 0; q < 8; q++) {
        __m256i x = _mm256_set1_epi32(four[q]), lo = block->w[q][0], hi = block->w[q][1], xl = x, xh = x;
        if (block->is_signed) { /* |w| times x with w's sign */
            xl = _mm256_sign_epi8(x, lo), xh = _mm256_sign_epi8(x, hi);
            lo = _mm256_abs_epi8(lo), hi = _mm256_abs_epi8(hi);
        }
        c.lo = _mm256_add_epi32(c.lo, _mm256_madd_epi16(_mm256_maddubs_epi16(lo, xl), ones));
        c.hi = _mm256_add_epi32(c.hi, _mm256_madd_epi16(_mm256_maddubs_epi16(hi, xh), ones));
    }
    return c;
}

#define Q4_START(start) (start)
#define Q8_START(start) 0

#else

typedef struct { int8_t w[8][64]; v16 scale; } weights32;

static inline weights32 load_q4(const uint8_t *p)
{
    weights32 block;
    for (int q = 0; q < 4; q++)
        for (int i = 0; i < 64; i++) {
            block.w[q][i] = (int8_t)(p[q * 64 + i] & 15);
            block.w[q + 4][i] = (int8_t)(p[q * 64 + i] >> 4);
        }
    block.scale = v_load_f16((const uint16_t *)(p + 256));
    return block;
}

static inline weights32 load_q8(const uint8_t *p)
{
    weights32 block;
    memcpy(block.w, p, 512);
    block.scale = v_load_f16((const uint16_t *)(p + 512));
    return block;
}

static inline v16i dot32(const weights32 *block, const int8_t *a, int32_t start)
{
    v16i c = vi_set1(start);
    for (int q = 0; q < 8; q++)
        for (int r = 0; r < 16; r++)
            for (int i = 0; i < 4; i++) c.i[r] += block->w[q][r * 4 + i] * a[q * 4 + i];
    return c;
}

#define Q4_START(start) (start)
#define Q8_START(start) 0

#endif

/* ---- products ------------------------------------------------------------------------------ */

#if DT_ISA >= 1
#define DT_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#else
#define DT_PREFETCH(p) ((void)0)
#endif

enum {
    STREAMS = 2, /* block rows multiplied side by side: two streams from memory are faster than one */
    MOST_STREAMED = 4, /* rows for which that is done */
    AHEAD = 6,         /* blocks that are fetched ahead */
};

/* Per block of 32 columns, in ascending order: acc = fma((float)integer dot product,
 * weight scale * activation scale, acc). y [streams][rows] of block rows that lie `apart` bytes apart. */
#define QUANTISED_PRODUCT(NAME, LOAD, START, BYTES)                                                \
    ALWAYS_INLINE void NAME##_product(const uint8_t *w, int64_t apart, const dt_activations *x,    \
                                      int32_t first, const int streams, const int rows, v16 *y)    \
    {                                                                                              \
        const int32_t blocks = x->cols / DT_BLOCK, lane = first % DT_TILE_ROWS;                    \
        const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;                      \
        v16 acc[STREAMS * MOST_ROWS];                                                              \
        for (int i = 0; i < streams * rows; i++) acc[i] = v_zero();                                \
        for (int32_t b = 0; b < blocks; b++, w += BYTES, a++)                                      \
            for (int s = 0; s < streams; s++) {                                                    \
                const uint8_t *p = w + s * apart;                                                  \
                for (int line = 0; line < BYTES; line += 64) DT_PREFETCH(p + AHEAD * BYTES + line); \
                weights32 block = LOAD(p);                                                         \
                for (int m = 0; m < rows; m++) {                                                   \
                    v16i c = dot32(&block, a->q[lane + m], START(a->start[lane + m]));             \
                    const v16 scale = v_mul(block.scale, v_set1(a->scale[lane + m]));              \
                    acc[s * rows + m] = v_fma(v_from_int(c), scale, acc[s * rows + m]);            \
                }                                                                                  \
            }                                                                                      \
        for (int i = 0; i < streams * rows; i++) y[i] = acc[i];                                    \
    }

/* 16-bit floats: one column at a time, acc = fma(weight, x, acc). */
#define FLOAT_PRODUCT(NAME, LOAD)                                                                  \
    ALWAYS_INLINE void NAME##_product(const uint8_t *w, int64_t apart, const dt_activations *x,    \
                                      int32_t first, const int streams, const int rows, v16 *y)    \
    {                                                                                              \
        const float *row = x->raw + (int64_t)first * x->stride;                                    \
        v16 acc[STREAMS * MOST_ROWS];                                                              \
        for (int i = 0; i < streams * rows; i++) acc[i] = v_zero();                                \
        for (int32_t k = 0; k < x->cols; k++)                                                      \
            for (int s = 0; s < streams; s++) {                                                    \
                const v16 column = LOAD((const uint16_t *)(w + s * apart) + (int64_t)k * DT_LANES); \
                for (int m = 0; m < rows; m++)                                                     \
                    acc[s * rows + m] = v_fma(column, v_set1(row[(int64_t)m * x->stride + k]),     \
                                              acc[s * rows + m]);                                  \
            }                                                                                      \
        for (int i = 0; i < streams * rows; i++) y[i] = acc[i];                                    \
    }

QUANTISED_PRODUCT(q4, load_q4, Q4_START, DT_Q4_BYTES)
QUANTISED_PRODUCT(q8, load_q8, Q8_START, DT_Q8_BYTES)
FLOAT_PRODUCT(bf16, v_load_bf16)
FLOAT_PRODUCT(f16, v_load_f16)

/* The sums of more rows than MOST_STREAMED would not fit the registers twice. */
#define ROWS_OF(NAME, ROWS)                                                                \
    case ROWS:                                                                             \
        if (ROWS <= MOST_STREAMED && streams == 2)                                         \
            NAME##_product(w, apart, x, first, 2, ROWS, y);                                \
        else                                                                               \
            NAME##_product(w, apart, x, first, 1, ROWS, y);                                \
        break;
#define PRODUCT_OF_ALL_ROWS(NAME, CASE)                                                            \
    static void NAME##_rows(const uint8_t *w, int64_t apart, const dt_activations *x,              \
                            int32_t first, int streams, int rows, v16 *y)                          \
    {                                                                                              \
        switch (rows) { FOR_ALL_ROWS(CASE) }                                                       \
    }
#define Q4_ROWS(ROWS) ROWS_OF(q4, ROWS)
#define Q8_ROWS(ROWS) ROWS_OF(q8, ROWS)
#define BF16_ROWS(ROWS) ROWS_OF(bf16, ROWS)
#define F16_ROWS(ROWS) ROWS_OF(f16, ROWS)
PRODUCT_OF_ALL_ROWS(q4, Q4_ROWS)
PRODUCT_OF_ALL_ROWS(q8, Q8_ROWS)
PRODUCT_OF_ALL_ROWS(bf16, BF16_ROWS)
PRODUCT_OF_ALL_ROWS(f16, F16_ROWS)

typedef void product(const uint8_t *w, int64_t apart, const dt_activations *x, int32_t first,
                     int streams, int rows, v16 *y);
static product *const products[DT_FORMATS] = {q4_rows, q8_rows, bf16_rows, f16_rows};

/* `rows` results of the block row `nb` to their places. */
static void put(const dt_matrix *matrix, const dt_output *out, int32_t nb, int32_t first, int32_t rows,
                const v16 *y)
{
    const int32_t column = nb * DT_LANES, left = matrix->rows - column;
    for (int32_t m = 0; m < rows; m++) {
        float *place = out->y + (int64_t)(first + m) * out->stride + column;
        if (left >= DT_LANES) {
            const v16 value = out->bias ? v_add(y[m], v_load(out->bias + column)) : y[m];
            v_store(place, out->add ? v_add(v_load(place), value) : value);
            continue;
        }
        float lane[DT_LANES];
        v_store(lane, y[m]);
        for (int32_t l = 0; l < left; l++) {
            const float value = out->bias ? lane[l] + out->bias[column + l] : lane[l];
            place[l] = out->add ? place[l] + value : value;
        }
    }
}

#ifdef DT_AMX
#include "tiles.h"
#endif

/* The block rows [from, to) of the matrix. */
static void multiply(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to)
{
    const int64_t bytes = dt_block_row_bytes(matrix->format, matrix->cols);
#ifdef DT_AMX
    if (multiply_tiled(matrix, x, out, from, to)) return;
#endif
    const int streams = x->rows > MOST_STREAMED ? 1 : STREAMS;
    const int32_t half = (to - from + streams - 1) / streams;
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0; first < x->rows; first += MOST_ROWS) {
            const int rows = x->rows - first < MOST_ROWS ? x->rows - first : MOST_ROWS;
            const int live = nb + half < to ? streams : 1;
            v16 y[STREAMS * MOST_ROWS];
            products[matrix->format](matrix->data + nb * bytes, half * bytes, x, first, live, rows, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * rows);
        }
}
