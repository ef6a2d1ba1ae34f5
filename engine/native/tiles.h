/* Products on AMX tiles: 32 or 64 columns of 16 weight rows with 16 rows of activations at once.
 *
 * The same integers and the same fma per block of 32 as everywhere, hence the same bits. Included
 * by kernels.h where DT_AMX is set.
 *
 * Three stages run at once, a step apart: weights are unpacked to signed bytes, go through the tiles,
 * and the tiles' sums are scaled and added up in vectors. More than 8 rows take a block a step. Up to 8
 * rows take two: activations lie spread over 16 rows of 64 columns, the first block's upper left and
 * the second one's lower right, between zeros; so one instruction does two blocks, whose sums stay apart.
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

/* A Q4 byte's nibble n stands for n - 8: flip its top bit and extend the sign, which is one affine
 * map over bits. */
ALWAYS_INLINE void unpack(const int32_t format, const uint8_t *p, int8_t *bytes)
{
    const __m512i low = _mm512_set1_epi64(0x0102040808080808);
    const __m512i high = _mm512_set1_epi64(0x1020408080808080);
    if (format == DT_Q8) memcpy(bytes, p, 512);
    else
        for (int q = 0; q < 4; q++) {
            const __m512i both = _mm512_loadu_si512(p + q * 64);
            _mm512_store_si512(bytes + q * 64, _mm512_gf2p8affine_epi64_epi8(both, low, 0xf8));
            _mm512_store_si512(bytes + (q + 4) * 64, _mm512_gf2p8affine_epi64_epi8(both, high, 0xf8));
        }
}

/* acc += sums of one block. */
ALWAYS_INLINE void scale_sums(const int32_t *sums, v16 scale, const float *of_rows, const int rows, v16 *acc)
{
    for (int m = 0; m < rows; m++) {
        const v16i c = _mm512_load_si512(sums + m * DT_LANES);
        acc[m] = v_fma(v_from_int(c), v_mul(scale, v_set1(of_rows[m])), acc[m]);
    }
}

/* Step i of stream s: unpacks the weights of i, multiplies those of i - 1, scales the sums of i - 2.
 * T counts steps modulo 4 and names buffers and tiles. */
#define TILE_STEP(T, A, W)                                                                         \
    {                                                                                              \
        const int32_t i = (j + T) / streams, s = T % streams, last = (T + 4 - streams) % 4;        \
        const uint8_t *p = w + s * apart + (int64_t)i * together * block_bytes;                    \
        for (int h = 0; h < together; h++)                                                         \
            if (fate != KEPT && together * i + h < blocks) {                                       \
                for (int line = 0; line < block_bytes; line += 64)                                 \
                    DT_PREFETCH(p + (AHEAD + h) * block_bytes + line);                             \
                unpack(format, p + h * block_bytes, fate ? kept + i * 512 : bytes[T] + h * 512);   \
            }                                                                                      \
        if (i >= 1 && i <= steps) {                                                                \
            if (s == 0 && together == 2) _tile_loadd(A, x->spread + (i - 1) * STEP_BYTES, 64);     \
            if (s == 0 && together == 1) _tile_loadd(A, a[i - 1].q, DT_BLOCK);                     \
            _tile_loadd(W, fate ? kept + (i - 1) * 512 : bytes[last], 64);                         \
            _tile_zero(T);                                                                         \
            _tile_dpbssd(T, A, W);                                                                 \
            _tile_stored(T, sums[last], 64);                                                       \
        }                                                                                          \
        for (int h = 0; i >= 2 && h < together; h++) {                                             \
            const int32_t b = together * (i - 2) + h;                                              \
            if (b >= blocks) continue;                                                             \
            const uint8_t *half = p + (h + 1 - 2 * together) * block_bytes - 32;                   \
            scale_sums(sums[(T + 8 - 2 * streams) % 4] + h * 8 * DT_LANES,                         \
                       v_load_f16((const uint16_t *)half), a[b].scale, rows, acc + s * rows);      \
        }                                                                                          \
    }

/* y [streams][rows] of block rows that lie `apart` bytes apart, for the group of rows from `first` on.
 * `rows` may be more than there are: what nobody reads is computed from stale numbers. */
ALWAYS_INLINE void tiled_product(const uint8_t *w, int64_t apart, const int32_t format,
                                 const dt_activations *x, int32_t first, const int together,
                                 const int streams, const int rows, const int fate, int8_t *kept, v16 *y)
{
    _Alignas(64) int8_t bytes[4][STEP_BYTES];
    _Alignas(64) int32_t sums[4][DT_TILE_ROWS * DT_LANES]; /* 4 KiB: no two lie 4096 bytes apart */
    const int32_t blocks = x->cols / DT_BLOCK, steps = (blocks + together - 1) / together;
    const int32_t block_bytes = format == DT_Q4 ? DT_Q4_BYTES : DT_Q8_BYTES;
    const dt_quantised *a = x->quantised + first / DT_TILE_ROWS * blocks;
    v16 acc[DT_TILE_ROWS];
    for (int m = 0; m < streams * rows; m++) acc[m] = v_zero();
    for (int32_t j = 0; j < streams * (steps + 2); j += 4) {
        TILE_STEP(0, 4, 6)
        if (streams == 2) {
            TILE_STEP(1, 4, 7)
            TILE_STEP(2, 5, 6)
        } else {
            TILE_STEP(1, 5, 7)
            TILE_STEP(2, 4, 6)
        }
        TILE_STEP(3, 5, 7)
    }
    for (int m = 0; m < streams * rows; m++) y[m] = acc[m];
}

#define TILED(NAME, FORMAT)                                                                        \
    static void NAME##_tiled(const uint8_t *w, int64_t apart, int streams, const dt_activations *x, \
                             int32_t first, int8_t *kept, v16 *y)                                  \
    {                                                                                              \
        if (x->rows <= 8 && streams == 2)                                                          \
            tiled_product(w, apart, FORMAT, x, 0, 2, 2, 8, FORGET, NULL, y);                       \
        else if (x->rows <= 8) tiled_product(w, 0, FORMAT, x, 0, 2, 1, 8, FORGET, NULL, y);        \
        else if (x->rows <= 12) tiled_product(w, 0, FORMAT, x, 0, 1, 1, 12, FORGET, NULL, y);      \
        else if (x->rows <= 16 || x->cols > MOST_KEPT)                                             \
            tiled_product(w, 0, FORMAT, x, first, 1, 1, 16, FORGET, NULL, y);                      \
        else if (first == 0) tiled_product(w, 0, FORMAT, x, 0, 1, 1, 16, KEEP, kept, y);           \
        else tiled_product(w, 0, FORMAT, x, first, 1, 1, 16, KEPT, kept, y);                       \
    }
TILED(q4, DT_Q4)
TILED(q8, DT_Q8)

/* The block rows [from, to) by tiles; 0 where those do not help. */
static int multiply_tiled(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                          int32_t from, int32_t to)
{
    if (x->rows < LEAST_TILED || (matrix->format != DT_Q4 && matrix->format != DT_Q8)) return 0;
    const int64_t bytes = dt_block_row_bytes(matrix->format, matrix->cols);
    const int streams = x->rows <= 8 ? STREAMS : 1;
    const int32_t half = (to - from + streams - 1) / streams;
    _Alignas(64) int8_t kept[MOST_KEPT * DT_LANES];
    _tile_loadconfig(x->rows <= 8 ? &two_blocks : &one_block);
    for (int32_t nb = from; nb < from + half; nb++)
        for (int32_t first = 0; first < x->rows; first += DT_TILE_ROWS) {
            const int32_t left = x->rows - first, rows = left < DT_TILE_ROWS ? left : DT_TILE_ROWS;
            const int live = nb + half < to ? streams : 1;
            const uint8_t *w = matrix->data + nb * bytes;
            v16 y[DT_TILE_ROWS];
            (matrix->format == DT_Q4 ? q4_tiled : q8_tiled)(w, half * bytes, live, x, first, kept, y);
            for (int s = 0; s < live; s++) put(matrix, out, nb + s * half, first, rows, y + s * 8);
        }
    _tile_release();
    return 1;
}
