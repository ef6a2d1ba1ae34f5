/* Products of packed weights with rows of activations, in vectors. Included by kernels.h. */

/* Codes are opened once for all rows, but where the compiler cannot keep sums in registers beside them: there, rows go
 * in passes of up to five, each number of them with code of its own. */
#if DT_ISA == 3 || defined(DT_VNNI)
#define SHARES_CODES 0
#else
#define SHARES_CODES 1
#endif
#ifdef DT_VNNI
enum { MOST_AT_ONCE = 5 };
#else
enum { MOST_AT_ONCE = DT_TILE_ROWS };
#endif

/* Whether four rows have code of their own: the usual verification, whose sums then stay in registers. */
#define FOUR_KNOWN (DT_ISA == 2 || MOST_AT_ONCE == 5)

/* Rows that are multiplied in two streams, each number of them by code of its own; and of more rows, those whose
 * sums lie in registers together. */
#if DT_ISA == 0 /* nothing is in registers anyhow */
enum { MOST_STREAMED = 0, TOGETHER = 1, FLOATS_TOGETHER = 1 };
#elif defined(DT_VNNI)
enum { MOST_STREAMED = 2, TOGETHER = 5, FLOATS_TOGETHER = 5 };
#elif DT_ISA == 1
enum { MOST_STREAMED = 2, TOGETHER = 2, FLOATS_TOGETHER = 4 };
#elif DT_ISA == 2
enum { MOST_STREAMED = 2, TOGETHER = 4, FLOATS_TOGETHER = 8 };
#elif defined(DT_SMMLA)
enum { MOST_STREAMED = 2, TOGETHER = 8, FLOATS_TOGETHER = 4 };
#else
enum { MOST_STREAMED = 2, TOGETHER = 4, FLOATS_TOGETHER = 4 };
#endif

/* Whether the sums of so many rows, with code of their own, all lie in registers beside AVX2's words, so that codes are
 * opened as they go. Four rows leave no room to open codes of several planes that sums of their own begin at. */
ALWAYS_INLINE int opens_beside(const int format, const int rows)
{
    const dt_format f = dt_formats[format];
    return IN_WORDS && (rows == 3 || (rows == 4 && (f.bits == 4 || !f.bias)));
}

/* What a pointer points to is loaded again: kept since it was last of use, it would take registers from sums. */
#if DT_ISA == 1
#define LOAD_AGAIN(p) __asm__ volatile("" : "+r"(p))
#else
#define LOAD_AGAIN(p) ((void)(p))
#endif

/* acc [rows] + what 32 columns add, the j-th ones of a block with these scales. */
ALWAYS_INLINE void add_columns(const int format, const uint8_t *p, const codes32 *codes, const factors *f,
                               const scales16 *opened, int32_t j, const dt_quantised *a, int32_t lane, const int rows,
                               accumulated *acc)
{
#if DT_ISA == 3
    add_rows(format, p, f, a, lane, rows, acc);
    (void)codes, (void)opened, (void)j;
#else
    v16i c[TOGETHER > 4 ? TOGETHER : 4][2];
    UNROLL_16
    for (int m = 0; m < rows; m++) add_offsets(format, f, a, lane + m, &acc[m]);
    dot_rows(format, p, codes, f, a, lane, rows, c);
    factors of_sums = *f;
    if (!codes && !dt_scaled_codes(format) && (dt_has_offset(format) || dt_in_halves(format))) {
        LOAD_AGAIN(opened);
        of_sums = factors_of(format, opened, j, 1);
    }
    UNROLL_16
    for (int m = 0; m < rows; m++) add_block(format, &of_sums, c[m], a, lane + m, &acc[m]);
#endif
}

/* Per 32 columns, in ascending order, what `add_block` says. y [2][rows] of block rows that lie `apart` bytes
 * apart. */
ALWAYS_INLINE void streamed_product(const int format, const uint8_t *w, int64_t apart, const dt_activations *x,
                                    int32_t first, const int rows, v16 *y)
{
    const int32_t blocks = x->cols / DT_BLOCK, lane = first % DT_TILE_ROWS;
    const int32_t together = dt_block_cols(format) / DT_BLOCK, code_bytes = dt_code_bytes(format);
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    accumulated acc[STREAMS * TOGETHER];
    UNROLL_16
    for (int i = 0; i < STREAMS * rows; i++) acc[i] = (accumulated){v_zero(), v_zero()};
    for (int32_t b = 0; b < blocks; b += together, w += dt_block_bytes(format)) {
        scales16 opened[STREAMS];
        UNROLL_16
        for (int s = 0; s < STREAMS; s++)
            open_scales(format, w + s * apart + together * code_bytes, &opened[s]);
        for (int32_t j = 0; j < together; j++, a++)
            UNROLL_16
            for (int s = 0; s < STREAMS; s++) {
                const uint8_t *p = w + s * apart + j * code_bytes;
                fetch_ahead(format, w + s * apart, j);
                const factors f = factors_of(format, &opened[s], j, 1);
                const dt_quantised *again = a;
                LOAD_AGAIN(again);
                add_columns(format, p, NULL, &f, &opened[s], j, again, lane, rows, acc + s * rows);
            }
        UNROLL_16
        for (int i = 0; i < STREAMS * rows; i++) end_block(format, &opened[i / rows], &acc[i]);
    }
    UNROLL_16
    for (int i = 0; i < STREAMS * rows; i++) y[i] = acc[i].y;
}

/* Of so many rows, those that go together: alike ones each time where that can be, as one row leaves units waiting. */
ALWAYS_INLINE int32_t even_share(int32_t rows, const int32_t most)
{
    const int32_t steps = (rows + most - 1) / most, share = (rows + steps - 1) / steps;
    return share > 5 && share < 8 ? 4 : share;
}

/* All rows, `share` of them together and then the rest. Where two rows lie side by side for SMMLA, an odd number of them
 * comes last. */
#ifdef DT_SMMLA
#define MAY_BE_NEXT(ROWS) (ROWS % 2 == 0 || m + ROWS == rows)
#else
#define MAY_BE_NEXT(ROWS) 1
#endif
#define STEP_OF(DO, MOST, ROWS) \
    for (; ROWS <= MOST && ROWS <= share && m + ROWS <= rows && MAY_BE_NEXT(ROWS); m += ROWS) DO(ROWS);
#define IN_STEPS(DO, MOST)                                                        \
    {                                                                             \
        int32_t m = 0;                                                            \
        STEP_OF(DO, MOST, 8) STEP_OF(DO, MOST, 5) STEP_OF(DO, MOST, 4)            \
        STEP_OF(DO, MOST, 3) STEP_OF(DO, MOST, 2) STEP_OF(DO, MOST, 1)            \
    }

/* The same with up to 16 rows and one block row, whose codes are opened once for all of them, or `beside` their sums. */
ALWAYS_INLINE void shared_product(const int format, const uint8_t *w, const dt_activations *x, int32_t first,
                                  int32_t rows, const int beside, v16 *y)
{
    const int32_t blocks = x->cols / DT_BLOCK, lane = first % DT_TILE_ROWS;
    const int32_t together = dt_block_cols(format) / DT_BLOCK, code_bytes = dt_code_bytes(format);
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    const int32_t share = even_share(rows, TOGETHER);
    const int shares = SHARES_CODES && !beside;
    accumulated acc[MOST_AT_ONCE];
    for (int32_t m = 0; m < rows; m++) acc[m] = (accumulated){v_zero(), v_zero()};
    for (int32_t b = 0; b < blocks; b += together, w += dt_block_bytes(format)) {
        scales16 opened;
        open_scales(format, w + together * code_bytes, &opened);
        for (int32_t j = 0; j < together; j++, a++) {
            const uint8_t *p = w + j * code_bytes;
            fetch_ahead(format, w, j);
            const factors f = factors_of(format, &opened, j, !shares);
            const codes32 codes = open_codes(format, p, &f);
#define ADD_COLUMNS(ROWS) \
    add_columns(format, p, shares ? &codes : NULL, &f, &opened, j, a, lane + m, ROWS, &acc[m])
            if (beside) add_columns(format, p, NULL, &f, &opened, j, a, lane, rows, acc);
            else IN_STEPS(ADD_COLUMNS, TOGETHER)
        }
        for (int32_t m = 0; m < rows; m++) end_block(format, &opened, &acc[m]);
    }
    for (int32_t m = 0; m < rows; m++) y[m] = acc[m].y;
}

enum {
    FLOATS_READ = 128, /* columns that are read again from the cache for the next rows */
    FLOATS_AHEAD = 64, /* that are fetched ahead */
};

ALWAYS_INLINE v16 load_column(const int format, const uint8_t *w, int64_t k)
{
    if (format == DT_F32) return v_load((const float *)w + k * DT_LANES);
    const uint16_t *halves = (const uint16_t *)w + k * DT_LANES;
    return format == DT_BF16 ? v_load_bf16(halves) : v_load_f16(halves);
}

/* Floats: one column at a time, acc = fma(weight, x, acc). Columns [from, to) of `streams` block rows. */
ALWAYS_INLINE void add_floats(const int format, const uint8_t *w, int64_t apart, int32_t from, int32_t to,
                              const float *row, int32_t stride, const int streams, const int rows, v16 *acc)
{
    v16 sum[FLOATS_TOGETHER];
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) sum[i] = acc[i];
    for (int32_t k = from; k < to; k++)
        UNROLL_16
        for (int s = 0; s < streams; s++) {
            if (streams == 1) DT_PREFETCH(w + (k + FLOATS_AHEAD) * DT_LANES * (format == DT_F32 ? 4 : 2));
            const v16 column = load_column(format, w + s * apart, k);
            UNROLL_16
            for (int m = 0; m < rows; m++)
                sum[s * rows + m] = v_fma(column, v_set1(row[(int64_t)m * stride + k]), sum[s * rows + m]);
        }
    UNROLL_16
    for (int i = 0; i < streams * rows; i++) acc[i] = sum[i];
}

ALWAYS_INLINE void float_product(const int format, const uint8_t *w, int64_t apart, const dt_activations *x,
                                 int32_t first, int32_t rows, v16 *y)
{
    const float *row = x->raw + (int64_t)first * x->stride;
    const int32_t share = even_share(rows, FLOATS_TOGETHER);
    for (int32_t i = 0; i < DT_TILE_ROWS; i++) y[i] = v_zero();
    if (rows == 1 && rows <= MOST_STREAMED) add_floats(format, w, apart, 0, x->cols, row, 0, STREAMS, 1, y);
    else if (rows == 2 && rows <= MOST_STREAMED) add_floats(format, w, apart, 0, x->cols, row, x->stride, STREAMS, 2, y);
    else
        for (int32_t k = 0, to; k < x->cols; k = to) {
            to = share < rows && k + FLOATS_READ < x->cols ? k + FLOATS_READ : x->cols;
#define ADD_FLOATS(ROWS) \
    add_floats(format, w, 0, k, to, row + (int64_t)m * x->stride, x->stride, 1, ROWS, &y[m])
            IN_STEPS(ADD_FLOATS, FLOATS_TOGETHER)
        }
}

/* y [2][rows] of two block rows that lie `apart` bytes apart where rows are few, else [rows] of one. */
#define PRODUCT(FORMAT)                                                                                \
    static void product_##FORMAT(const uint8_t *w, int64_t apart, const dt_activations *x, int32_t first, \
                                 int32_t rows, v16 *y)                                                 \
    {                                                                                                  \
        if (!dt_is_quantised(DT_##FORMAT)) float_product(DT_##FORMAT, w, apart, x, first, rows, y);    \
        else if (rows == 1 && rows <= MOST_STREAMED) streamed_product(DT_##FORMAT, w, apart, x, first, 1, y); \
        else if (rows == 2 && rows <= MOST_STREAMED) streamed_product(DT_##FORMAT, w, apart, x, first, 2, y); \
        else if (rows == 3 && opens_beside(DT_##FORMAT, 3)) shared_product(DT_##FORMAT, w, x, first, 3, 1, y); \
        else if (rows == 4 && opens_beside(DT_##FORMAT, 4)) shared_product(DT_##FORMAT, w, x, first, 4, 1, y); \
        else if (rows == 4 && FOUR_KNOWN) shared_product(DT_##FORMAT, w, x, first, 4, 0, y);           \
        else if (MOST_AT_ONCE > 5) shared_product(DT_##FORMAT, w, x, first, rows, 0, y);               \
        else if (rows == 3) shared_product(DT_##FORMAT, w, x, first, 3, 0, y);                         \
        else shared_product(DT_##FORMAT, w, x, first, 5, 0, y);                                        \
    }
FOR_ALL_FORMATS(PRODUCT)

typedef void product(const uint8_t *w, int64_t apart, const dt_activations *x, int32_t first, int32_t rows, v16 *y);
#define PRODUCT_ENTRY(FORMAT) [DT_##FORMAT] = product_##FORMAT,
static product *const products[DT_FORMATS] = {FOR_ALL_FORMATS(PRODUCT_ENTRY)};

/* The block rows [from, to) of the matrix. Of the last few of many rows, both streams read the same. */
static void multiply(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to)
{
    const int64_t bytes = dt_block_row_bytes(matrix->format, matrix->cols);
    const int streams = x->rows > MOST_STREAMED ? 1 : STREAMS;
    const int32_t half = (to - from + streams - 1) / streams;
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0, rows; first < x->rows; first += rows) {
            const int32_t left = x->rows - first, in_tile = DT_TILE_ROWS - first % DT_TILE_ROWS;
            const int32_t open = left < in_tile ? left : in_tile, passes = (open + MOST_AT_ONCE - 1) / MOST_AT_ONCE;
            rows = (open + passes - 1) / passes;
            const int live = streams == STREAMS && nb + half < to ? STREAMS : 1;
            v16 y[DT_TILE_ROWS];
            products[matrix->format](matrix->data + nb * bytes, live == STREAMS ? half * bytes : 0, x, first, rows, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * rows);
        }
}
