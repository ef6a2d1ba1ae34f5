/* Products on AMX tiles: 32 or 64 columns of 16 weight rows with 16 rows of activations at once.
 *
 * The same integers and the same fma per 32 columns as everywhere, hence the same bits. Included by
 * kernels.h in place of products.h, which serves few rows and floats.
 *
 * Four stages run at once, some steps apart: weights are unpacked to signed bytes, go through a tile,
 * the tile's sums are stored, and scaled and added up in vectors. A step is 32 columns and 16 rows of
 * activations, or twice 32 columns and up to 8 rows: these lie spread over 16 rows of 64 columns, the
 * first 32 columns upper left and the second ones lower right, between zeros; so one instruction does
 * both, whose sums stay apart. Where every 16 columns have a scale of their own, a step is 32 columns:
 * 8 rows are spread over 16 in the same way, and 16 rows take two products.
 */

enum {
    LEAST_TILED = 5, /* fewer rows are faster in vectors */
    MOST_KEPT = 16384, /* columns of a block row whose bytes are kept for the next rows */
};

/* Tiles 0-3: sums [16][16] int32; 4 and 5: activations; 6 and 7: weights. Static and constant, as GCC's
 * header hides from the compiler that all 64 bytes are read. */
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;
#define SHAPES(COLUMNS)                                                                            \
    {.palette = 1, .bytes = {64, 64, 64, 64, COLUMNS, COLUMNS, 64, 64},                            \
     .rows = {16, 16, 16, 16, 16, 16, (COLUMNS) / 4, (COLUMNS) / 4}}
static const tile_shapes of_16_columns = SHAPES(16), of_32_columns = SHAPES(32), of_64_columns = SHAPES(64);

/* A Q4 byte's nibble n stands for n - 8: flip its top bit and extend the sign, which is one affine
 * map over bits. */
ALWAYS_INLINE void unpack_q4(const uint8_t *p, int8_t *bytes)
{
    const __m512i low = _mm512_set1_epi64(0x0102040808080808);
    const __m512i high = _mm512_set1_epi64(0x1020408080808080);
    for (int q = 0; q < 4; q++) {
        __m512i both = _mm512_loadu_si512(p + q * 64);
        _mm512_store_si512(bytes + q * 64, _mm512_gf2p8affine_epi64_epi8(both, low, 0xf8));
        _mm512_store_si512(bytes + (q + 4) * 64, _mm512_gf2p8affine_epi64_epi8(both, high, 0xf8));
    }
}

/* The factors of the b-th 32 columns, which come in ascending order. */
ALWAYS_INLINE factors next_factors(const int format, const uint8_t *w, int32_t b, scales16 *opened)
{
    const int32_t in_block = dt_block_cols(format) / DT_BLOCK, j = b % in_block;
    if (j == 0) open_scales(format, codes_at(format, w, b) + in_block * dt_code_bytes(format), opened);
    return factors_of(format, opened, j, 0);
}

/* The codes of the b-th 32 columns as the signed numbers that they stand for, or these times scales. */
ALWAYS_INLINE void unpack(const int format, const uint8_t *w, int32_t b, scales16 *opened, int8_t *bytes)
{
    const dt_format f = dt_formats[format];
    const uint8_t *p = codes_at(format, w, b);
    fetch_ahead(format, w, b);
    if (format == DT_Q8) memcpy(bytes, p, 512);
    else if (format == DT_Q4) unpack_q4(p, bytes);
    else if (dt_scaled_codes(format)) {
        const factors of = next_factors(format, w, b, opened);
UNROLL_8
        for (int q = 0; q < 8; q++)
            _mm512_store_si512(bytes + q * 64, b_sub(codes_for_dot(format, p, &of, q), b_set1(added(format))));
    } else
UNROLL_8
        for (int q = 0; q < 8; q++) {
            b64 code = codes_of(format, p, q, b_set1(0));
            if (f.table) code = b_look(dt_tables[f.table], code);
            else if (f.bias) code = b_sub(code, b_set1(f.bias));
            _mm512_store_si512(bytes + q * 64, code);
        }
}

/* acc += 32 columns' part of the product, from the tiles' sums. */
ALWAYS_INLINE void add_sums(const int format, const uint8_t *w, int32_t b, scales16 *opened,
                            const int32_t *sums, const int32_t *second, const dt_quantised *a,
                            const int rows, accumulated *acc)
{
    const int32_t in_block = dt_block_cols(format) / DT_BLOCK;
    const factors f = next_factors(format, w, b, opened);
    UNROLL_16
    for (int m = 0; m < rows; m++) {
        v16i c[2] = {_mm512_load_si512(sums + m * DT_LANES)};
        if (dt_in_halves(format)) c[1] = _mm512_load_si512(second + m * DT_LANES);
        add_offsets(format, &f, a, m, &acc[m]);
        add_block(format, &f, c, a, m, &acc[m]);
        if (b % in_block == in_block - 1) end_block(format, opened, &acc[m]);
    }
}

/* Step k, of stream k % streams. T is k % 2 and names the tiles. */
#define TILE_STEP(T, C, D)                                                                         \
    {                                                                                              \
        const int32_t k = j + T, multiplied = k - streams, stored = multiplied - 2, added = stored - 1; \
        const uint8_t *of_stream = w + k % streams * apart;                                        \
        for (int h = 0; h < together; h++)                                                         \
            if (fresh && k / streams * together + h < blocks)                                      \
                unpack(format, of_stream, k / streams * together + h, &ahead[T % streams],         \
                       bytes + (k & mask) * step_bytes + h * 512);                                 \
        if (stored >= 0 && stored < steps) {                                                       \
            _tile_stored(C, sums[stored & 3], 64);                                                 \
            if (twice) _tile_stored(D, second[stored & 3], 64);                                    \
        }                                                                                          \
        if (multiplied >= 0 && multiplied < steps) {                                               \
            const int32_t i = multiplied / streams;                                                \
            const int8_t *of_weights = bytes + (multiplied & mask) * step_bytes;                   \
            if (rows == 16) _tile_loadd(4, a[i].q, DT_BLOCK);                                      \
            else if (T == 0) _tile_loadd(4, spread_at(x->spread, i, halves), columns);             \
            _tile_loadd(6, of_weights, 64);                                                        \
            _tile_zero(C);                                                                         \
            _tile_dpbssd(C, 4, 6);                                                                 \
            if (twice) {                                                                           \
                _tile_loadd(5, a[i].q[0] + 16, DT_BLOCK);                                          \
                _tile_loadd(7, of_weights + 256, 64);                                              \
                _tile_zero(D);                                                                     \
                _tile_dpbssd(D, 5, 7);                                                             \
            }                                                                                      \
        }                                                                                          \
        for (int h = 0; h < together; h++) {                                                       \
            const int s = (T + 1) % streams; /* as `added` is k less an odd number, or all is one */ \
            const int32_t b = added / streams * together + h;                                      \
            const int32_t *sums_of = sums[added & 3] + h * 8 * DT_LANES;                           \
            if (added >= 0 && added < steps && b < blocks)                                         \
                add_sums(format, w + s * apart, b, &opened[s], sums_of,                            \
                         twice ? second[added & 3] : sums_of + 8 * DT_LANES, &a[b], rows,       \
                         acc + s * rows);                                                          \
        }                                                                                          \
    }

/* Up to 8 rows' activations of a step. */
ALWAYS_INLINE const int8_t *spread_at(const int8_t *spread, int32_t i, const int halves)
{
    return halves ? spread + i / 2 * DT_SPREAD + 1024 + i % 2 * 512 : spread + i * DT_SPREAD;
}

/* y [streams][rows] of block rows that lie `apart` bytes apart, for the group of rows from `first` on.
 * `rows` may be more than there are: what nobody reads is computed from stale numbers. With 16 rows,
 * `bytes` has room for the unpacked weights of `mask` + 1 steps, and unless `fresh` has them all. */
ALWAYS_INLINE void tiled_product(const int format, const uint8_t *w, int64_t apart,
                                 const dt_activations *x, int32_t first, const int rows, int8_t *bytes,
                                 int32_t mask, int fresh, v16 *y)
{
    _Alignas(64) int32_t sums[4][DT_TILE_ROWS * DT_LANES]; /* 4 KiB: no two lie 4096 bytes apart */
    _Alignas(64) int32_t second[4][DT_TILE_ROWS * DT_LANES];
    const int halves = dt_in_halves(format), twice = halves && rows == 16;
    const int streams = rows == 8 ? 2 : 1, together = rows == 8 && !halves ? 2 : 1;
    const int columns = together * DT_BLOCK, step_bytes = columns * DT_LANES;
    const int32_t blocks = x->cols / DT_BLOCK, steps = (blocks + together - 1) / together * streams;
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    scales16 ahead[STREAMS], opened[STREAMS]; /* of what is unpacked, and of what is added */
    accumulated acc[DT_TILE_ROWS];
    UNROLL_16
    for (int m = 0; m < DT_TILE_ROWS; m++) acc[m] = (accumulated){v_zero(), v_zero()};
    for (int32_t j = 0; j < steps + streams + 3; j += 2) {
        TILE_STEP(0, 0, 1)
        TILE_STEP(1, 2, 3)
    }
    UNROLL_16
    for (int m = 0; m < DT_TILE_ROWS; m++) y[m] = acc[m].y;
}

typedef void tiled(const uint8_t *w, int64_t apart, const dt_activations *x, int32_t first, int8_t *bytes,
                   int32_t mask, int fresh, v16 *y);
#define TILED(FORMAT)                                                                              \
    static void tiled_##FORMAT(const uint8_t *w, int64_t apart, const dt_activations *x,           \
                               int32_t first, int8_t *bytes, int32_t mask, int fresh, v16 *y)      \
    {                                                                                              \
        if (x->rows <= 8) tiled_product(DT_##FORMAT, w, apart, x, 0, 8, bytes, 3, 1, y);           \
        else tiled_product(DT_##FORMAT, w, 0, x, first, 16, bytes, mask, fresh, y);                \
    }
FOR_ALL_QUANTISED(TILED)

#define TILED_ENTRY(FORMAT) [DT_##FORMAT] = tiled_##FORMAT,
static tiled *const tiled_products[DT_FORMATS] = {FOR_ALL_QUANTISED(TILED_ENTRY)};

static const tile_shapes *shapes_for(int32_t format, int32_t rows)
{
    const int halves = dt_in_halves(format);
    return rows <= 8 ? (halves ? &of_32_columns : &of_64_columns) : halves ? &of_16_columns : &of_32_columns;
}

/* The block rows [from, to) of the matrix. */
static void multiply(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to)
{
    if (x->rows < LEAST_TILED || !dt_is_quantised(matrix->format)) {
        dt_kernels_avx512.multiply(matrix, x, out, from, to);
        return;
    }
    const int64_t row_bytes = dt_block_row_bytes(matrix->format, matrix->cols);
    const int streams = x->rows <= 8 ? STREAMS : 1;
    const int keep = x->rows > DT_TILE_ROWS && x->cols <= MOST_KEPT;
    const int32_t half = (to - from + streams - 1) / streams;
    _Alignas(64) int8_t bytes[MOST_KEPT * DT_LANES];
    _tile_loadconfig(shapes_for(matrix->format, x->rows));
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0; first < x->rows; first += DT_TILE_ROWS) {
            const int32_t left = x->rows - first, rows = left < DT_TILE_ROWS ? left : DT_TILE_ROWS;
            const int live = nb + half < to ? streams : 1;
            const uint8_t *w = matrix->data + nb * row_bytes;
            v16 y[DT_TILE_ROWS];
            tiled_products[matrix->format](w, live == 2 ? half * row_bytes : 0, x, first, bytes,
                                           keep ? -1 : 3, !keep || first == 0, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * 8);
        }
    _tile_release();
}

/* Attention is AVX-512's. */
static void attend_chunk(dt_chunk chunk, const void *next, int32_t dim, const dt_query *query,
                         const dt_span *visible, int32_t rows, float cap, float *peak, float *total,
                         float *const *mixed)
{
    dt_kernels_avx512.attend_chunk[DT_KV_F16](chunk, next, dim, query, visible, rows, cap, peak, total, mixed);
}

static void attend_chunk8(dt_chunk chunk, const void *next, int32_t dim, const dt_query *query,
                          const dt_span *visible, int32_t rows, float cap, float *peak, float *total,
                          float *const *mixed)
{
    dt_kernels_avx512.attend_chunk[DT_KV_Q8](chunk, next, dim, query, visible, rows, cap, peak, total, mixed);
}
