/* From ggml's blocks to ours: the same bits in another order, 16 rows side by side.
 *
 * Included behind pack_kernels.h. Everything is done to a word of each of 16 rows at once, in plain
 * loops that compilers vectorise. Formats are looked up rather than compiled in: reading a file takes longer.
 */

typedef uint32_t words16[DT_LANES]; /* a word of each row */

#define EACH_ROW for (int r = 0; r < DT_LANES; r++)

/* Words of the rows' blocks. */
DT_INLINE void fetch(const uint8_t *const p[DT_LANES], int32_t offset, words16 *words, const int count)
{
    for (int w = 0; w < count; w++) EACH_ROW memcpy(&words[w][r], p[r] + offset + w * 4, 4);
}

/* ggml's blocks: where their parts begin. */
typedef struct { int16_t bytes, d, m, scales, four, two, one; } ggml_block;
static const ggml_block ggml_blocks[DT_FORMATS] = {
    [DT_Q4] = {.bytes = 18, .four = 2},
    [DT_Q8] = {.bytes = 34},
    [DT_Q4_1] = {.bytes = 20, .m = 2, .four = 4},
    [DT_Q5_0] = {.bytes = 22, .one = 2, .four = 6},
    [DT_Q5_1] = {.bytes = 24, .m = 2, .one = 4, .four = 8},
    [DT_Q2_K] = {.bytes = 84, .scales = 0, .two = 16, .d = 80, .m = 82},
    [DT_Q3_K] = {.bytes = 110, .one = 0, .two = 32, .scales = 96, .d = 108},
    [DT_Q4_K] = {.bytes = 144, .m = 2, .scales = 4, .four = 16},
    [DT_Q5_K] = {.bytes = 176, .m = 2, .scales = 4, .one = 16, .four = 48},
    [DT_Q6_K] = {.bytes = 210, .four = 0, .two = 128, .scales = 192, .d = 208},
    [DT_IQ4_NL] = {.bytes = 18, .four = 2},
    [DT_IQ4_XS] = {.bytes = 136, .scales = 2, .four = 8},
    [DT_MXFP4] = {.bytes = 17, .four = 1},
};

/* ---- codes of the j-th 32 columns ---------------------------------------------------------- */

/* Nibbles: low ones of the first 16 columns, high ones of the others. In blocks of 256 columns they
 * lie otherwise: low and high nibbles of 32 bytes belong to 32 columns each, which are neighbours, or
 * with Q6_K 64 columns apart. */
static void repack_fours(int32_t format, const uint8_t *const p[DT_LANES], int32_t j, uint8_t *out)
{
    const int32_t at = ggml_blocks[format].four;
    words16 x[8];
    if (dt_formats[format].scales < SIX_MIN || format == DT_IQ4_XS) {
        fetch(p, at + j * 16, x, 4);
        memcpy(out, x, 256);
        return;
    }
    const int32_t bytes = format == DT_Q6_K ? j / 4 * 64 + j % 2 * 32 : j / 2 * 32;
    const int32_t high = format == DT_Q6_K ? j / 2 % 2 : j % 2;
    fetch(p, at + bytes, x, 8);
    for (int q = 0; q < 4; q++) {
        words16 both;
        EACH_ROW
        {
            const uint32_t low = x[q][r] >> 4 * high, far = x[q + 4][r] >> 4 * high;
            both[r] = (low & 0x0f0f0f0f) | (far & 0x0f0f0f0f) << 4;
        }
        memcpy(out + q * 64, both, 64);
    }
}

/* Pairs: 32 bytes hold those of four times 32 columns. */
static void repack_twos(int32_t format, const uint8_t *const p[DT_LANES], int32_t j, uint8_t *out)
{
    words16 x[8];
    fetch(p, ggml_blocks[format].two + j / 4 * 32, x, 8);
    for (int half = 0; half < 2; half++) {
        words16 all = {0};
        for (int g = 0; g < 4; g++)
            EACH_ROW all[r] |= (x[half * 4 + g][r] >> j % 4 * 2 & 0x03030303) << 2 * g;
        memcpy(out + half * 64, all, 64);
    }
}

/* Bits: 32 bytes hold those of eight times 32 columns, or a word those of 32, column by column. */
static void repack_ones(int32_t format, const uint8_t *const p[DT_LANES], int32_t j, uint8_t *out)
{
    words16 x[8], all = {0};
    if (dt_formats[format].scales >= SIX_MIN) {
        fetch(p, ggml_blocks[format].one, x, 8);
        for (int g = 0; g < 8; g++) EACH_ROW all[r] |= (x[g][r] >> j & 0x01010101) << g;
    } else {
        fetch(p, ggml_blocks[format].one, x, 1);
        for (int c = 0; c < 4; c++) /* every fourth bit, drawn together */
            EACH_ROW
            {
                uint32_t bits = x[0][r] >> c & 0x11111111;
                bits = (bits | bits >> 3) & 0x03030303;
                bits = (bits | bits >> 6) & 0x000f000f;
                all[r] |= ((bits | bits >> 12) & 0xff) << 8 * c;
            }
    }
    memcpy(out, all, 64);
}

static void repack_codes(int32_t format, const uint8_t *const p[DT_LANES], int32_t j, uint8_t *out)
{
    const int bits = dt_formats[format].bits;
    if (bits == 8) {
        words16 x[8];
        fetch(p, 2, x, 8);
        memcpy(out, x, 512);
        return;
    }
    if (bits & 4) repack_fours(format, p, j, out), out += 256;
    if (bits & 2) repack_twos(format, p, j, out), out += 128;
    if (bits & 1) repack_ones(format, p, j, out);
}

/* ---- scales -------------------------------------------------------------------------------- */

/* fp16 scales of 16 rows; tells whether one is no number. */
static int repack_halves(const uint8_t *const p[DT_LANES], int32_t offset, uint8_t *out)
{
    int wrong = 0;
    EACH_ROW
    {
        uint16_t half;
        memcpy(&half, p[r] + offset, 2);
        memcpy(out + r * 2, &half, 2);
        wrong |= (half & 0x7c00) == 0x7c00;
    }
    return wrong;
}

/* The smaller scales of one row, in formats.h's order. */
static void read_scales(int32_t format, const uint8_t *p, uint8_t s[16])
{
    const int scales = dt_formats[format].scales;
    for (int i = 0; i < 4 && scales == SIX_MIN; i++) {
        s[i] = p[i] & 63, s[i + 8] = p[i + 4] & 63;
        s[i + 4] = (uint8_t)((p[i + 8] & 15) | p[i] >> 6 << 4);
        s[i + 12] = (uint8_t)(p[i + 8] >> 4 | p[i + 4] >> 6 << 4);
    }
    for (int i = 0; i < 8 && scales == SIX_OF_16; i++) {
        s[i] = (uint8_t)((p[i] & 15) | (p[8 + i % 4] >> i / 4 * 2 & 3) << 4);
        s[i + 8] = (uint8_t)(p[i] >> 4 | (p[8 + i % 4] >> (i / 4 * 2 + 4) & 3) << 4);
    }
    for (int i = 0; i < 8 && scales == SIX_OF_32; i++)
        s[i] = (uint8_t)((p[2 + i / 2] >> i % 2 * 4 & 15) | (p[i / 4] >> i % 4 * 2 & 3) << 4);
    for (int i = 0; i < 16 && scales >= BYTE_OF_16; i++) s[i] = p[i];
}

/* Tells whether a scale is no number, or so large that weights are none. */
static int repack_scales(int32_t format, const uint8_t *const p[DT_LANES], uint8_t *out)
{
    const ggml_block block = ggml_blocks[format];
    int wrong = 0;
    if (dt_formats[format].scales == EXPONENT) {
        EACH_ROW out[r] = p[r][0], wrong |= p[r][0] > 252;
        return wrong;
    }
    wrong = repack_halves(p, block.d, out);
    if (dt_has_offset(format)) wrong |= repack_halves(p, block.m, out + 32);
    if (dt_block_cols(format) == DT_BLOCK) return wrong;
    uint8_t s[256];
    EACH_ROW
    {
        uint8_t of_row[16] = {0};
        read_scales(format, p[r] + block.scales, of_row);
        for (int i = 0; i < 16; i++) s[i * DT_LANES + r] = of_row[i];
    }
    dt_close_scales(format, s, out);
    return wrong;
}

/* ---- all ----------------------------------------------------------------------------------- */

/* Rows that are none get zeros from here. */
static const uint8_t no_row[256];

static int repack_block_row(int32_t format, const dt_pack_job *job, int32_t index, uint8_t *out)
{
    const int32_t block_cols = dt_block_cols(format), bytes = ggml_blocks[format].bytes;
    const int32_t blocks = job->cols / block_cols, codes = dt_code_bytes(format);
    const int32_t left = job->count - index * DT_LANES;
    int wrong = 0;
    for (int32_t b = 0; b < blocks; b++, out += dt_block_bytes(format)) {
        const uint8_t *p[DT_LANES];
        EACH_ROW p[r] = r >= left ? no_row
                                  : (const uint8_t *)job->source +
                                        ((int64_t)(index * DT_LANES + r) * blocks + b) * bytes;
        for (int32_t j = 0; j < block_cols / DT_BLOCK; j++) repack_codes(format, p, j, out + j * codes);
        wrong |= repack_scales(format, p, out + block_cols / DT_BLOCK * codes);
    }
    return wrong;
}

static void repack(dt_pack_job *job, int32_t index)
{
    uint8_t *out = job->out + (job->first / DT_LANES + index) * dt_block_row_bytes(job->format, job->cols);
    if (repack_block_row(job->format, job, index, out)) atomic_store(&job->damaged, 1);
}

const dt_packers DT_PACKERS = {pack, repack};
