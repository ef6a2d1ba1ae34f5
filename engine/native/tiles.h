/* Products on AMX tiles: 32 or 64 columns of 16 weight rows with 16 rows of activations at once.
 *
 * The same integers and the same fma per 32 columns as everywhere, hence the same bits. Included by
 * kernels.h in place of products.h, which serves few rows and floats.
 *
 * Three stages run at once, a step apart: weights are unpacked to signed bytes, go through the tiles,
 * and the tiles' sums are scaled and added up in vectors. More than 8 rows take 32 columns a step. Up to
 * 8 rows take twice those: activations lie spread over 16 rows of 64 columns, the first 32 columns upper
 * left and the second ones lower right, between zeros; so one instruction does both, whose sums stay
 * apart. Where every 16 columns have a scale, a step is two products of 16 columns each.
 */

enum {
    LEAST_TILED = 5, /* fewer rows are faster in vectors */
    STEP_BYTES = 1024,
    MOST_KEPT = 16384, /* columns of a block row that may be kept */
};

/* What happens to the unpacked weights of a block row: forgotten after use, kept for the groups of rows
 * that follow, or there already. */
enum { FORGET, KEEP, KEPT };

/* Tiles 0-3: sums [16][16] int32; 4 and 5: activations; 6 and 7: weights. Static and constant, as GCC's
 * header hides from the compiler that all 64 bytes are read. */
typedef struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} tile_shapes;
static const tile_shapes one_block = {
    .palette = 1, .bytes = {64, 64, 64, 64, 32, 32, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 8, 8}};
static const tile_shapes two_blocks = {
    .palette = 1, .bytes = {64, 64, 64, 64, 64, 64, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 16, 16}};
static const tile_shapes two_halves = {
    .palette = 1, .bytes = {64, 64, 64, 64, 16, 16, 64, 64}, .rows = {16, 16, 16, 16, 16, 16, 4, 4}};
static const tile_shapes two_halves_of_8_rows = {
    .palette = 1, .bytes = {64, 64, 64, 64, 16, 16, 64, 64}, .rows = {8, 8, 8, 8, 8, 8, 4, 4}};

static const tile_shapes *shapes_for(int32_t format, int32_t rows)
{
    if (dt_in_halves(format)) return rows <= 8 ? &two_halves_of_8_rows : &two_halves;
    return rows <= 8 ? &two_blocks : &one_block;
}

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

/* The codes of 32 columns as the signed numbers that they stand for. */
ALWAYS_INLINE void unpack(const int format, const uint8_t *p, int8_t *bytes)
{
    const dt_format f = dt_formats[format];
    if (format == DT_Q8) memcpy(bytes, p, 512);
    else if (format == DT_Q4) unpack_q4(p, bytes);
    else
UNROLL_8
        for (int q = 0; q < 8; q++) {
            b64 code = codes_of(format, p, q);
            if (f.table) code = b_look(dt_tables[f.table], code);
            else if (f.bias) code = b_sub(code, b_set1(f.bias));
            _mm512_store_si512(bytes + q * 64, code);
        }
}

/* Two blocks of 32 columns in one product, or one block in one or in two halves. */
#define MULTIPLY_TILES(T, A, W, C, D)                                                              \
    if (i >= 1 && i <= steps) {                                                                    \
        const int8_t *bytes_of_step = fate ? kept + (i - 1) * 512 : bytes[last];                   \
        const int8_t *of_rows = a[i - 1].q[0];                                                     \
        if (halves) {                                                                              \
            if (s == 0) {                                                                          \
                _tile_loadd(4, of_rows, DT_BLOCK);                                                 \
                _tile_loadd(5, of_rows + 16, DT_BLOCK);                                            \
            }                                                                                      \
            _tile_loadd(6, bytes_of_step, 64);                                                     \
            _tile_loadd(7, bytes_of_step + 256, 64);                                               \
            _tile_zero(C);                                                                         \
            _tile_zero(D);                                                                         \
            _tile_dpbssd(C, 4, 6);                                                                 \
            _tile_dpbssd(D, 5, 7);                                                                 \
            _tile_stored(C, sums[last], 64);                                                       \
            _tile_stored(D, second[last], 64);                                                     \
        } else {                                                                                   \
            if (s == 0 && together == 2) _tile_loadd(A, x->spread + (i - 1) * STEP_BYTES, 64);     \
            if (s == 0 && together == 1) _tile_loadd(A, of_rows, DT_BLOCK);                        \
            _tile_loadd(W, bytes_of_step, 64);                                                     \
            _tile_zero(T);                                                                         \
            _tile_dpbssd(T, A, W);                                                                 \
            _tile_stored(T, sums[last], 64);                                                       \
        }                                                                                          \
    }

/* Step i of stream s: unpacks the weights of i, multiplies those of i - 1, scales the sums of i - 2.
 * T counts steps modulo 4 and names buffers and tiles. */
#define TILE_STEP(T, A, W, C, D)                                                                   \
    {                                                                                              \
        const int32_t i = (j + T) / streams, s = T % streams, last = (T + 4 - streams) % 4;        \
        const int32_t before = (T + 8 - 2 * streams) % 4;                                          \
        const uint8_t *of_stream = w + s * apart;                                                  \
        for (int h = 0; h < together; h++)                                                         \
            if (fate != KEPT && together * i + h < blocks) {                                       \
                const uint8_t *p = codes_at(format, of_stream, together * i + h);                  \
                fetch_ahead(format, p);                                                            \
                unpack(format, p, fate ? kept + i * 512 : bytes[T] + h * 512);                     \
            }                                                                                      \
        MULTIPLY_TILES(T, A, W, C, D)                                                              \
        for (int h = 0; i >= 2 && h < together; h++) {                                             \
            const int32_t b = together * (i - 2) + h;                                              \
            if (b < blocks)                                                                        \
                add_sums(format, of_stream, b, &opened[s], sums[before] + h * 8 * DT_LANES,        \
                         second[before], a[b].row, rows, acc + s * rows);                          \
        }                                                                                          \
    }

/* acc += 32 columns' part of the product, from the tiles' sums. */
ALWAYS_INLINE void add_sums(const int format, const uint8_t *w, int32_t b, scales16 *opened,
                            const int32_t *sums, const int32_t *second, const dt_row *of_rows,
                            const int rows, v16 *acc)
{
    const int32_t in_block = dt_block_cols(format) / DT_BLOCK, j = b % in_block;
    if (j == 0) open_scales(format, codes_at(format, w, b) + in_block * dt_code_bytes(format), opened);
    const factors f = factors_of(format, opened, j);
    for (int m = 0; m < rows; m++) {
        v16i c[2] = {_mm512_load_si512(sums + m * DT_LANES)};
        if (dt_in_halves(format)) c[1] = _mm512_load_si512(second + m * DT_LANES);
        acc[m] = add_block(format, &f, c, &of_rows[m], acc[m]);
    }
}

/* y [streams][rows] of block rows that lie `apart` bytes apart, for the group of rows from `first` on.
 * `rows` may be more than there are: what nobody reads is computed from stale numbers. */
ALWAYS_INLINE void tiled_product(const int format, const uint8_t *w, int64_t apart,
                                 const dt_activations *x, int32_t first, const int together,
                                 const int streams, const int rows, const int fate, int8_t *kept, v16 *y)
{
    _Alignas(64) int8_t bytes[4][STEP_BYTES];
    _Alignas(64) int32_t sums[4][DT_TILE_ROWS * DT_LANES]; /* 4 KiB: no two lie 4096 bytes apart */
    _Alignas(64) int32_t second[4][DT_TILE_ROWS * DT_LANES];
    const int halves = dt_in_halves(format);
    const int32_t blocks = x->cols / DT_BLOCK, steps = (blocks + together - 1) / together;
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    scales16 opened[STREAMS];
    v16 acc[DT_TILE_ROWS];
    for (int m = 0; m < streams * rows; m++) acc[m] = v_zero();
    for (int32_t j = 0; j < streams * (steps + 2); j += 4) {
        TILE_STEP(0, 4, 6, 0, 1)
        if (streams == 2) {
            TILE_STEP(1, 4, 7, 2, 3)
            TILE_STEP(2, 5, 6, 0, 1)
        } else {
            TILE_STEP(1, 5, 7, 2, 3)
            TILE_STEP(2, 4, 6, 0, 1)
        }
        TILE_STEP(3, 5, 7, 2, 3)
    }
    for (int m = 0; m < streams * rows; m++) y[m] = acc[m];
}

#define TILED(FORMAT)                                                                              \
    static void tiled_##FORMAT(const uint8_t *w, int64_t apart, const dt_activations *x,           \
                               int32_t first, int8_t *kept, v16 *y)                                \
    {                                                                                              \
        const int format = DT_##FORMAT, together = dt_in_halves(format) ? 1 : 2;                   \
        if (x->rows <= 8) tiled_product(format, w, apart, x, 0, together, 2, 8, FORGET, NULL, y);  \
        else if (x->rows <= 12) tiled_product(format, w, 0, x, 0, 1, 1, 12, FORGET, NULL, y);      \
        else if (x->rows <= 16 || x->cols > MOST_KEPT)                                             \
            tiled_product(format, w, 0, x, first, 1, 1, 16, FORGET, NULL, y);                      \
        else if (first == 0) tiled_product(format, w, 0, x, 0, 1, 1, 16, KEEP, kept, y);           \
        else tiled_product(format, w, 0, x, first, 1, 1, 16, KEPT, kept, y);                       \
    }
FOR_ALL_QUANTISED(TILED)

typedef void tiled(const uint8_t *w, int64_t apart, const dt_activations *x, int32_t first, int8_t *kept,
                   v16 *y);
#define TILED_ENTRY(FORMAT) [DT_##FORMAT] = tiled_##FORMAT,
static tiled *const tiled_products[DT_FORMATS] = {FOR_ALL_QUANTISED(TILED_ENTRY)};

/* The block rows [from, to) of the matrix. */
static void multiply(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to)
{
    if (x->rows < LEAST_TILED || !dt_is_quantised(matrix->format)) {
        dt_kernels_avx512.multiply(matrix, x, out, from, to);
        return;
    }
    const int64_t bytes = dt_block_row_bytes(matrix->format, matrix->cols);
    const int streams = x->rows <= 8 ? STREAMS : 1;
    const int32_t half = (to - from + streams - 1) / streams;
    _Alignas(64) int8_t kept[MOST_KEPT * DT_LANES];
    _tile_loadconfig(shapes_for(matrix->format, x->rows));
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0; first < x->rows; first += DT_TILE_ROWS) {
            const int32_t left = x->rows - first, rows = left < DT_TILE_ROWS ? left : DT_TILE_ROWS;
            const int live = nb + half < to ? streams : 1;
            const uint8_t *w = matrix->data + nb * bytes;
            v16 y[DT_TILE_ROWS];
            tiled_products[matrix->format](w, live == 2 ? half * bytes : 0, x, first, kept, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * 8);
        }
    _tile_release();
}
