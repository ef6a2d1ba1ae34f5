/* Everything that computes, written once and compiled once per instruction set.
 *
 * isa_*.c includes this with DT_ISA and DT_KERNELS set; it defines one table of functions.
 */
#include "internal.h"
#include "vector.h"

enum { MOST_ROWS = 8 }; /* whose sums fit the registers; divides DT_TILE_ROWS */

/* ---- activations --------------------------------------------------------------------------- */

/* Blocks [from, to) of row `row` from fp32 to int8: x ~ q * scale, q in -127..127. */
static void quantise(const float *x, int32_t row, int32_t cols, int32_t from, int32_t to,
                     dt_quantised *out, int8_t *spread)
{
    const int32_t lane = row % DT_TILE_ROWS;
    out += row / DT_TILE_ROWS * (cols / DT_BLOCK);
    for (int32_t b = from; b < to; b++) {
        v16 first = v_load(x + b * DT_BLOCK), second = v_load(x + b * DT_BLOCK + 16);
        float top = v_top(v_max(v_abs(first), v_abs(second)));
        v16 inverse = v_set1(top > 0 ? 127.0f / top : 0.0f);
        v16i low = v_round_int(v_mul(first, inverse)), high = v_round_int(v_mul(second, inverse));
        vi_store_bytes(out[b].q[lane], low);
        vi_store_bytes(out[b].q[lane] + 16, high);
        out[b].scale[lane] = top / 127.0f;
        out[b].start[lane] = -8 * vi_sum(vi_add(low, high));
#ifdef DT_AMX
        if (row < 8) memcpy(spread + b / 2 * 1024 + row * 64 + b % 2 * (512 + 32), out[b].q[lane], 32);
#endif
    }
    (void)spread;
}

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

#define ALWAYS_INLINE static inline __attribute__((always_inline))

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

/* A number of rows known to the compiler keeps the sums in registers; those of more rows than
 * MOST_STREAMED would not fit twice. */
#define FOR_ALL_ROWS(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8)
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

/* ---- small operations on rows -------------------------------------------------------------- */

/* y = x / rms(x) * weight; `cols` may be padded with zeros to `padded` (a multiple of 16). */
static void rms_norm(const float *x, const float *weight, int32_t cols, int32_t padded, float eps,
                     float *y)
{
    v16 squares = v_zero();
    for (int32_t i = 0; i < padded; i += 16) {
        v16 part = v_load(x + i);
        squares = v_fma(part, part, squares);
    }
    const float scale = 1.0f / sqrtf(v_sum(squares) / (float)cols + eps);
    for (int32_t i = 0; i < padded; i += 16)
        v_store(y + i, v_mul(v_mul(v_load(x + i), v_set1(scale)), v_load(weight + i)));
}

/* y = silu(gate) * up over `count` (a multiple of 16) numbers. */
static void gated(const float *gate, const float *up, int32_t count, float *y)
{
    for (int32_t i = 0; i < count; i += 16) {
        v16 g = v_load(gate + i);
        v16 one = v_set1(1.0f), minus = v_sub(v_zero(), g);
        v_store(y + i, v_mul(v_div(g, v_add(one, v_exp(minus))), v_load(up + i)));
    }
}

static void to_half(const float *x, int32_t count, uint16_t *y)
{
    for (int32_t i = 0; i < count; i += 16) v_store_f16(y + i, v_load(x + i));
}

/* ---- attention ----------------------------------------------------------------------------- */

/* One chunk of 64 keys for `rows` queries that share a key/value head, merged into the running
 * (peak, total, mixed) of each query in chunk order.
 *
 * keys [dim][64] and values [64][dim] fp16; query [rows][dim], already scaled; visible[row] keys
 * of the chunk may be looked at (1..64). */
static inline __attribute__((always_inline)) void attend_rows(
    const uint16_t *keys, const uint16_t *values, int32_t dim, const float *const *query,
    const int32_t *visible, const int32_t rows, float *peak, float *total, float *const *mixed)
{
    float share[MOST_ROWS][DT_CHUNK], kept[MOST_ROWS], fresh[MOST_ROWS];
    int32_t most = 0;
    for (int32_t m = 0; m < rows; m++) most = visible[m] > most ? visible[m] : most;
    for (int32_t k = 0; k < most; k += 16) {
        v16 acc[MOST_ROWS];
        for (int32_t m = 0; m < rows; m++) acc[m] = v_zero();
        for (int32_t d = 0; d < dim; d++) {
            v16 key = v_load_f16(keys + d * DT_CHUNK + k);
            for (int32_t m = 0; m < rows; m++) acc[m] = v_fma(v_set1(query[m][d]), key, acc[m]);
        }
        for (int32_t m = 0; m < rows; m++) v_store(share[m] + k, acc[m]);
    }
    for (int32_t m = 0; m < rows; m++) {
        float *mine = share[m];
        for (int32_t k = visible[m]; k < DT_CHUNK; k++) mine[k] = -INFINITY;
        const float top = v_top(v_max(v_max(v_load(mine), v_load(mine + 16)),
                                      v_max(v_load(mine + 32), v_load(mine + 48))));
        for (int32_t k = 0; k < DT_CHUNK; k += 16)
            v_store(mine + k, v_exp(v_sub(v_load(mine + k), v_set1(top))));
        for (int32_t k = visible[m]; k < DT_CHUNK; k++) mine[k] = 0;
        const v16 sum = v_add(v_add(v_load(mine), v_load(mine + 16)),
                              v_add(v_load(mine + 32), v_load(mine + 48)));
        const float higher = top > peak[m] ? top : peak[m];
        float both[16] = {peak[m] - higher, top - higher};
        v_store(both, v_exp(v_load(both)));
        kept[m] = peak[m] == -INFINITY ? 0.0f : both[0];
        fresh[m] = both[1];
        total[m] = total[m] * kept[m] + v_sum(sum) * fresh[m];
        peak[m] = higher;
    }
    for (int32_t d = 0; d < dim; d += 16) {
        v16 acc[MOST_ROWS];
        for (int32_t m = 0; m < rows; m++) acc[m] = v_zero();
        for (int32_t k = 0; k < most; k++) {
            v16 value = v_load_f16(values + k * dim + d);
            for (int32_t m = 0; m < rows; m++) acc[m] = v_fma(v_set1(share[m][k]), value, acc[m]);
        }
        for (int32_t m = 0; m < rows; m++) {
            v16 old = v_mul(v_load(mixed[m] + d), v_set1(kept[m]));
            v_store(mixed[m] + d, v_add(old, v_mul(acc[m], v_set1(fresh[m]))));
        }
    }
}

/* A number of rows known to the compiler keeps the sums in registers. */
static void attend_chunk(const uint16_t *keys, const uint16_t *values, int32_t dim,
                         const float *const *query, const int32_t *visible, int32_t rows,
                         float *peak, float *total, float *const *mixed)
{
#define ATTEND(ROWS)                                                                      \
    case ROWS:                                                                            \
        attend_rows(keys, values, dim, query, visible, ROWS, peak, total, mixed); \
        break;
    switch (rows) { FOR_ALL_ROWS(ATTEND) }
}

const dt_kernels DT_KERNELS = {quantise, multiply, rms_norm, gated, to_half, attend_chunk};
