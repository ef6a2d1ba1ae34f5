/* Products of packed weights with rows of activations, in vectors. Included by kernels.h. */

#define FETCHES_NEXT (DT_ISA == 2)

/* Rows whose sums fit the registers; and with those of two streams. */
#if DT_ISA == 2
#define FOR_ROWS_AT_ONCE FOR_ALL_ROWS
enum { MOST_AT_ONCE = 8, MOST_STREAMED = 2 };
#elif defined(DT_SMMLA) /* of many rows, pairs */
#define FOR_ROWS_AT_ONCE(DO) FOR_4_ROWS(DO) DO(6) DO(8)
enum { MOST_AT_ONCE = 8, MOST_STREAMED = 2 };
#elif defined(DT_VNNI)
#define FOR_ROWS_AT_ONCE(DO) FOR_4_ROWS(DO) DO(5)
enum { MOST_AT_ONCE = 5, MOST_STREAMED = 2 };
#else
#define FOR_ROWS_AT_ONCE FOR_4_ROWS
enum { MOST_AT_ONCE = 4, MOST_STREAMED = 2 };
#endif

/* Of so many rows, those that are multiplied next. */
ALWAYS_INLINE int32_t at_once(int32_t rows)
{
#ifdef DT_VNNI /* four and four rather than five and three */
    const int32_t passes = (rows + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
    return (rows + passes - 1) / passes;
#else
    if (rows >= MOST_AT_ONCE) return MOST_AT_ONCE;
#ifdef DT_SMMLA
    if (rows > 4) return rows / 2 * 2;
#endif
    return rows;
#endif
}

/* Per 32 columns, in ascending order, what `add_block` says. y [streams][rows] of block rows that lie
 * `apart` bytes apart. What is fetched from memory lies `further` bytes further on. */
ALWAYS_INLINE void quantised_product(const int format, const uint8_t *w, int64_t apart, int64_t further,
                                     const dt_activations *x, int32_t first, const int streams,
                                     const int rows, v16 *y)
{
    const int32_t blocks = x->cols / DT_BLOCK, lane = first % DT_TILE_ROWS;
    const int32_t together = dt_block_cols(format) / DT_BLOCK, code_bytes = dt_code_bytes(format);
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    accumulated acc[STREAMS * MOST_AT_ONCE];
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) acc[i] = (accumulated){v_zero(), v_zero()};
    for (int32_t b = 0; b < blocks; b += together, w += dt_block_bytes(format)) {
        scales16 opened[STREAMS];
        UNROLL_16
        for (int s = 0; s < streams; s++)
            open_scales(format, w + s * apart + together * code_bytes, &opened[s]);
        for (int32_t j = 0; j < together; j++, a++)
            UNROLL_16
            for (int s = 0; s < streams; s++) {
                const uint8_t *p = w + s * apart + j * code_bytes;
                fetch_ahead(format, p + (FETCHES_NEXT ? further : 0));
                const factors f = factors_of(format, &opened[s], j, rows);
                accumulated *sums = acc + s * rows;
#if DT_ISA == 3
                add_rows(format, p, &f, a, lane, rows, sums);
#else
                v16i c[MOST_AT_ONCE][2];
                dot_rows(format, p, &f, a, lane, rows, c);
                UNROLL_16
                for (int m = 0; m < rows; m++) add_block(format, &f, c[m], &a->row[lane + m], &sums[m]);
#endif
            }
        UNROLL_16
        for (int i = 0; i < streams * rows; i++) end_block(format, &opened[i / rows], &acc[i]);
    }
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) y[i] = acc[i].y;
}

ALWAYS_INLINE v16 load_column(const int format, const uint8_t *w, int64_t k)
{
    if (format == DT_F32) return v_load((const float *)w + k * DT_LANES);
    const uint16_t *halves = (const uint16_t *)w + k * DT_LANES;
    return format == DT_BF16 ? v_load_bf16(halves) : v_load_f16(halves);
}

/* Floats: one column at a time, acc = fma(weight, x, acc). */
ALWAYS_INLINE void float_product(const int format, const uint8_t *w, int64_t apart,
                                 const dt_activations *x, int32_t first, const int streams,
                                 const int rows, v16 *y)
{
    const float *row = x->raw + (int64_t)first * x->stride;
    v16 acc[STREAMS * MOST_AT_ONCE];
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) acc[i] = v_zero();
    for (int32_t k = 0; k < x->cols; k++)
        UNROLL_16
        for (int s = 0; s < streams; s++) {
            const v16 column = load_column(format, w + s * apart, k);
            UNROLL_16
            for (int m = 0; m < rows; m++)
                acc[s * rows + m] =
                    v_fma(column, v_set1(row[(int64_t)m * x->stride + k]), acc[s * rows + m]);
        }
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) y[i] = acc[i];
}

ALWAYS_INLINE void any_product(const int format, const uint8_t *w, int64_t apart, int64_t further,
                               const dt_activations *x, int32_t first, const int streams,
                               const int rows, v16 *y)
{
    if (dt_is_quantised(format)) quantised_product(format, w, apart, further, x, first, streams, rows, y);
    else float_product(format, w, apart, x, first, streams, rows, y);
}

#if DT_ISA == 0 /* nothing is in registers anyhow */
#define FOR_ANY_ROWS default: any_product(format, w, apart, further, x, first, streams, rows, y);
#else
#define CASE_OF_ROWS(ROWS)                                                                 \
    case ROWS:                                                                             \
        if (ROWS <= MOST_STREAMED && streams == 2) any_product(format, w, apart, further, x, first, 2, ROWS, y); \
        else any_product(format, w, apart, further, x, first, 1, ROWS, y);                          \
        break;
#define FOR_ANY_ROWS FOR_ROWS_AT_ONCE(CASE_OF_ROWS)
#endif
#define PRODUCT(FORMAT)                                                                            \
    static void product_##FORMAT(const uint8_t *w, int64_t apart, int64_t further, const dt_activations *x, \
                                 int32_t first, int streams, int rows, v16 *y)                     \
    {                                                                                              \
        const int format = DT_##FORMAT;                                                            \
        switch (rows) { FOR_ANY_ROWS }                                               \
    }
FOR_ALL_FORMATS(PRODUCT)

typedef void product(const uint8_t *w, int64_t apart, int64_t further, const dt_activations *x, int32_t first,
                     int streams, int rows, v16 *y);
#define PRODUCT_ENTRY(FORMAT) [DT_##FORMAT] = product_##FORMAT,
static product *const products[DT_FORMATS] = {FOR_ALL_FORMATS(PRODUCT_ENTRY)};

/* The block rows [from, to) of the matrix. */
static void multiply(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to)
{
    const int64_t bytes = dt_block_row_bytes(matrix->format, matrix->cols);
    const int streams = x->rows > MOST_STREAMED ? 1 : STREAMS;
    const int32_t half = (to - from + streams - 1) / streams;
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0, rows; first < x->rows; first += rows) {
            const int32_t left = x->rows - first, in_tile = DT_TILE_ROWS - first % DT_TILE_ROWS;
            rows = at_once(left < in_tile ? left : in_tile);
            const int live = nb + half < to ? streams : 1;
            v16 y[STREAMS * MOST_AT_ONCE];
            /* The last of several passes over a block row leaves memory idle: it fetches the next one. Two
             * passes of 8 rows are 12 % shorter with it on Zen 4; with AVX2, whose passes are more, longer. */
            const int64_t further = FETCHES_NEXT && first && first + rows == x->rows ? bytes : 0;
            products[matrix->format](matrix->data + nb * bytes, half * bytes, further, x, first, live, rows, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * rows);
        }
}
