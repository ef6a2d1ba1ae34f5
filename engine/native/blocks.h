/* Blocks of quantised weights in registers: codes of 16 rows x 32 columns and their factors, and what
 * a block adds to a product. Included by kernels.h. */

/* Products of AVX2 alone are of 16 bits. */
#if DT_ISA == 1 && !defined(DT_VNNI)
#define IN_WORDS 1
#else
#define IN_WORDS 0
#endif

/* Groups of columns one by one, where shifts have to be known to the compiler, and arrays of sums, which lie in
 * registers only once their loops are gone. */
#if DT_ISA
#define UNROLL_8 _Pragma("GCC unroll 8")
#define UNROLL_16 _Pragma("GCC unroll 16")
#else
#define UNROLL_8
#define UNROLL_16
#endif

/* ---- codes --------------------------------------------------------------------------------- */

#if DT_ISA == 3 || IN_WORDS
#define SIGNED_BYTES 1
#else
#define SIGNED_BYTES 0
#endif

/* What dot products of bytes take: unsigned times signed ones, so a number is added that makes codes
 * unsigned, and taken back through the activations' sum. With AVX2 alone that would saturate where a code
 * takes all 8 bits; NEON's are signed anyhow. */
ALWAYS_INLINE int signed_codes(const int format)
{
    return SIGNED_BYTES && (format == DT_Q8 || dt_formats[format].table == IQ4_TABLE);
}

ALWAYS_INLINE int added(const int format)
{
    const dt_format f = dt_formats[format];
    if (signed_codes(format)) return 0;
    if (dt_scaled_codes(format)) return f.bias && !SIGNED_BYTES ? 128 : 0;
    return f.bits == 8 || f.table == IQ4_TABLE ? 128 : f.table == E2M1_TABLE ? 16 : f.bias;
}

ALWAYS_INLINE b64 moved(b64 a, const int right) { return right < 0 ? b_left(a, -right) : b_right(a, right); }

ALWAYS_INLINE b64 nibbles(b64 a, const int high)
{
    if (DT_ISA == 3 && high) return b_right(a, 4); /* byte by byte: nothing comes in from a neighbour */
    return b_and(moved(a, high * 4), b_set1(15));
}

/* The codes of columns 4q..4q+3; see formats.h for the planes. Those of 2 and 3 bits are set into `code`. */
ALWAYS_INLINE b64 codes_of(const int format, const uint8_t *p, const int q, b64 code)
{
    const int bits = dt_formats[format].bits;
    if (bits == 8) return b_load(p + q * 64);
    int low = 0;
    if (bits & 4) {
        code = nibbles(b_load(p + q % 4 * 64), q / 4);
        p += 256, low = 4;
    }
    if (bits & 2) {
        code = b_or_and(code, moved(b_load(p + q / 4 * 64), q % 4 * 2 - low), b_set1(3 << low));
        p += 128, low += 2;
    }
    if (bits & 1) code = b_or_and(code, moved(b_load(p), q - low), b_set1(1 << low));
    return code;
}

/* The tables' numbers, `added` to. */
static const uint8_t unsigned_tables[3][16] = {
    [IQ4_TABLE] = {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
    [E2M1_TABLE] = {16, 17, 18, 19, 20, 22, 24, 28, 16, 15, 14, 13, 12, 10, 8, 4},
};

/* Codes of 2 and 3 bits times the scales of their 16 columns. Four rows share a register's 16 bytes, so a row's
 * four products lie in a table of these, and where there are eight, those of two rows in one and of two in another. */
#define FOUR(x) x, x, x, x
#define OF_4_ROWS(entries) FOUR(0), FOUR(entries), FOUR(2 * entries), FOUR(3 * entries)
static const uint8_t entry_of_row[2][64] = {{FOUR(OF_4_ROWS(4))}, {FOUR(OF_4_ROWS(8))}};

/* With products of 16 bits, sums of these are multiplied with the scales of 16 columns. */
ALWAYS_INLINE int scales_words(const int format) { return IN_WORDS && (dt_scaled_codes(format) || dt_in_halves(format)); }
/* Whether sums of 16 columns stay apart. */
ALWAYS_INLINE int two_sums(const int format) { return dt_in_halves(format) && !IN_WORDS; }

/* Whether sums of words begin where the bias of all codes is taken back: they pass what 16 bits hold on the way, which
 * does no harm, as they come back. */
ALWAYS_INLINE int starts_words(const int format) { return IN_WORDS && dt_in_halves(format); }
/* Whether it is taken back from sums of 32 bits instead. */
ALWAYS_INLINE int has_bias(const int format) { return dt_formats[format].bias && !starts_words(format); }

#if IN_WORDS
/* Each lies twice. */
typedef v16i code_factors;
#else
typedef struct { v16i low, high; } code_factors; /* those tables; of few rows, the scales in `low` */
#endif

/* Tables of eight entries pay from three rows on: of fewer, the sums of 16 columns are multiplied with scales. */
ALWAYS_INLINE int scales_sums(const int format, const int few)
{
    return (DT_ISA == 1 || DT_ISA == 2) && !IN_WORDS && dt_scaled_codes(format) && dt_formats[format].bias && few;
}

/* s: scales as they are stored. With a bias, products are negated, as -4 * -32 would not fit a signed byte, and
 * 128 is added where bytes are unsigned: 128 + (4 - code) * (s - 32). */
ALWAYS_INLINE code_factors for_codes(const int format, v16i s, const int few)
{
    const int bias = dt_formats[format].bias;
#if IN_WORDS
    const v16i scale = dt_in_halves(format) ? s : bias ? vi_sub(vi_set1(32), s) : vi_low_nibble(s);
    (void)few;
    return vi_pair(scale, scale);
#else
    if (scales_sums(format, few)) {
        const v16i scale = vi_add(vi_mul(s, vi_set1(-1)), vi_set1(8 * bias));
        return (code_factors){scale, scale};
    }
    if (!bias) {
        const v16i of_row = vi_mul(vi_low_nibble(s), vi_set1(0x03020100));
        return (code_factors){of_row, of_row};
    }
    v16i below = vi_add(vi_mul(s, vi_set1(0x01020304)), vi_set1(0x60402000));
    v16i above = vi_add(vi_mul(s, vi_set1(-0x03020100)), vi_set1((int32_t)0xe0c0a080));
#if SIGNED_BYTES
    const v16i signs = vi_set1((int32_t)0x80808080);
    below = vi_xor(below, signs), above = vi_xor(above, signs);
#endif
    return (code_factors){vi_zip_low(below, above), vi_zip_high(below, above)};
#endif
}

/* ---- factors ------------------------------------------------------------------------------- */

/* A block's scales, opened: those of 16 rows, and bytes of the smaller ones. */
typedef struct {
    v16 d, m;
    uint8_t s[256];
} scales16;

/* What 32 columns are multiplied with; half and offset_of are numbers of 16 columns. */
typedef struct {
    v16 scale, offset, half[2], offset_of[2];
    code_factors codes[2];
#if IN_WORDS
    v16i bias; /* times the scales, in words */
#endif
} factors;

/* 2^(e - 128): e as a float's exponent is twice that, but for e = 0, which would be 0. */
ALWAYS_INLINE v16 exponents(const uint8_t *e)
{
    const v16 twice = vi_shift_exponent(vi_from_u8(e));
    return v_max(v_mul(twice, v_set1(0.5f)), v_set1(0x1p-128f));
}

ALWAYS_INLINE void open_scales(const int format, const uint8_t *p, scales16 *opened)
{
    if (dt_formats[format].scales == EXPONENT) opened->d = exponents(p);
    else opened->d = v_load_f16((const uint16_t *)p);
    if (dt_has_offset(format)) opened->m = v_load_f16((const uint16_t *)(p + 32));
    if (dt_formats[format].scales >= SIX_MIN && dt_has_offset(format)) opened->m = v_sub(v_zero(), opened->m);
    /* As are the products of codes with scales. */
    if (dt_formats[format].scales == SIX_OF_16) opened->d = v_sub(v_zero(), opened->d);
    if (dt_block_cols(format) > DT_BLOCK) dt_open_scales(format, p, opened->s);
}

/* Those of the block's columns 32 j..32 j + 31, for products with few rows of activations or with more. */
ALWAYS_INLINE factors factors_of(const int format, const scales16 *opened, const int32_t j, const int few)
{
    const int scales = dt_formats[format].scales;
    const uint8_t *s = opened->s;
    factors f = {.scale = opened->d};
    if (dt_has_offset(format)) f.offset = opened->m;
    if (scales == SIX_MIN) {
        f.scale = v_mul(opened->d, v_from_int(vi_from_u8(s + j * 16)));
        f.offset = v_mul(opened->m, v_from_int(vi_from_u8(s + 128 + j * 16)));
    } else if (scales == SIX_OF_32)
        f.scale = v_mul(opened->d, v_sub(v_from_int(vi_from_u8(s + j * 16)), v_set1(32)));
    else if (scales >= SIX_OF_16)
        for (int h = 0; h < 2; h++) {
            const uint8_t *of = s + j * 32 + h * 16;
            if (scales == BYTE_OF_16 && !IN_WORDS) f.half[h] = v_from_int(vi_from_i8(of));
            else f.codes[h] = for_codes(format, scales == BYTE_OF_16 ? vi_from_i8(of) : vi_from_u8(of), few);
            if (scales == NIBBLES_OF_16)
                f.offset_of[h] = v_mul(opened->m, v_from_int(vi_high_nibble(vi_from_u8(of))));
        }
#if IN_WORDS
    if (scales == SIX_OF_16) f.bias = vi_pair(vi_left(f.codes[0], 2), vi_left(f.codes[1], 2));
#endif
    return f;
}

/* Columns 4q..4q+3 as products take them. */
ALWAYS_INLINE b64 codes_for_dot(const int format, const uint8_t *p, const factors *f, const int q)
{
    const int table = dt_formats[format].table;
#if !IN_WORDS
    if (dt_scaled_codes(format)) {
        const int eight = dt_formats[format].bits > 2;
        const b64 code = codes_of(format, p, q, b_load(entry_of_row[eight]));
        const code_factors *of = &f->codes[q / 4];
        return eight ? b_look_two(of->low, of->high, code) : b_look_one(of->low, code);
    }
#endif
    const b64 code = codes_of(format, p, q, b_set1(0));
    (void)f;
    if (signed_codes(format)) return table ? b_look((const uint8_t *)dt_tables[table], code) : code;
    if (table) return b_look(unsigned_tables[table], code);
#if !SIGNED_BYTES
    if (format == DT_Q8) return b_xor(code, b_set1(128));
#endif
    return code;
}

/* Codes of 32 columns, opened for many rows: in registers where there are 32 of these. NEON does not use them. */
typedef struct { b64 of[8]; } codes32;

ALWAYS_INLINE codes32 open_codes(const int format, const uint8_t *p, const factors *f)
{
    codes32 codes;
UNROLL_8
    for (int q = 0; q < 8; q++) codes.of[q] = codes_for_dot(format, p, f, q);
    return codes;
}

/* ---- what a block adds --------------------------------------------------------------------- */

/* A product with one row of activations. Where codes are multiplied with their scales, `block` is what the
 * block's columns add, without the scale that they share. */
typedef struct { v16 y, block; } accumulated;

/* Add 32 columns' part of a product, whose integer dot products are c[0] and, of the second 16 columns, c[1]
 * where those have a scale of their own. The one order of it, everywhere:
 *   y = fma(c, scale * a.scale, y)
 *   y = fma(offset, a.total, y)                                             where there is an offset
 * In halves, c = half[0] * c[0] + half[1] * c[1], which is below 2^24, so that floats hold it exactly; where
 * sums of words are multiplied with scales, that is what c[0] is. With scaled codes
 *   block = fma(c, a.scale, block)
 *   y = fma(offset, a.of_half, y)                    of each half, where there is an offset
 *   y = fma(block, d, y)                             behind the block's last columns: end_block */
ALWAYS_INLINE void add_block(const int format, const factors *f, const v16i *c, const dt_quantised *a, int32_t row,
                             accumulated *sum)
{
    if (dt_scaled_codes(format)) {
        sum->block = v_fma(v_from_int(c[0]), v_set1(a->scale[row]), sum->block);
        return;
    }
    v16 whole = v_from_int(c[0]);
    if (two_sums(format)) whole = v_fma(f->half[1], v_from_int(c[1]), v_mul(f->half[0], whole));
    sum->y = v_fma(whole, v_mul(f->scale, v_set1(a->scale[row])), sum->y);
    if (dt_has_offset(format)) sum->y = v_fma(f->offset, v_set1(a->total[row]), sum->y);
}

/* What it says of offsets with scaled codes: they wait for no product, and so leave their registers to these. */
ALWAYS_INLINE void add_offsets(const int format, const factors *f, const dt_quantised *a, int32_t row, accumulated *sum)
{
    if (!dt_scaled_codes(format) || !dt_has_offset(format)) return;
    for (int h = 0; h < 2; h++) sum->y = v_fma(f->offset_of[h], v_set1(a->of_half[row][h]), sum->y);
}

ALWAYS_INLINE void end_block(const int format, const scales16 *opened, accumulated *sum)
{
    if (!dt_scaled_codes(format)) return;
    sum->y = v_fma(sum->block, opened->d, sum->y);
    sum->block = v_zero();
}

/* ---- dot products -------------------------------------------------------------------------- */

/* Where sums begin, so that numbers added to codes are taken back: c[0], and c[1] of the second 16 columns
 * where those have a scale of their own. */
ALWAYS_INLINE void begin_sums(const int format, const factors *f, const dt_quantised *a, int32_t row, v16i c[2])
{
    const int number = added(format);
    c[0] = vi_left(vi_set1(a->start[row]), number == 128 ? 4 : number == 16 ? 1 : 0);
    if (!number) c[0] = vi_set1(0);
#if IN_WORDS
    if (scales_words(format)) c[0] = has_bias(format) ? vi_dot_pairs(vi_set1(0), f->bias, a->less[row]) : vi_set1(0);
#endif
    if (two_sums(format))
        for (int h = 0; h < 2; h++) c[h] = vi_set1(number * a->less[row][h]);
    (void)f;
}

#if DT_ISA == 3 || IN_WORDS

/* How many groups of four columns can be summed in 16 bits: a product is at most 127 * (the largest
 * code), and AVX2 adds pairs of them. */
ALWAYS_INLINE int groups_in_words(const int format)
{
    const int tables = dt_scaled_codes(format) && !IN_WORDS;
    const int largest = signed_codes(format) || tables           ? 128
                        : starts_words(format)                   ? dt_formats[format].bias
                        : dt_formats[format].table == E2M1_TABLE ? 28
                                                                 : (1 << dt_formats[format].bits) - 1;
    const int products = DT_ISA == 1 ? 2 : 1, fit = 32767 / (127 * largest * products);
    const int alike = dt_in_halves(format) || dt_scaled_codes(format) ? 4 : 8; /* their sums have one scale */
    return fit >= alike ? alike : fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

#endif

#if DT_ISA == 3

#include "neon_products.h"

#elif !IN_WORDS

/* The integer dot products of `rows` activation rows with 32 columns, or with 16 and 16. A group of codes serves
 * all rows; it is opened here unless `codes` has it. Only sums lie in registers. */
ALWAYS_INLINE void dot_rows(const int format, const uint8_t *p, const codes32 *codes, const factors *f,
                            const dt_quantised *a, int32_t lane, const int rows, v16i c[][2])
{
    const int scaled = scales_sums(format, !codes), bias = dt_formats[format].bias;
    UNROLL_16
    for (int m = 0; m < rows; m++) {
        begin_sums(format, f, a, lane + m, c[m]);
        for (int h = 0; h < 2 && scaled; h++) c[m][h] = vi_set1(bias * a->less[lane + m][h]);
    }
UNROLL_8
    for (int q = 0; q < 8; q++) {
        const b64 code = codes ? codes->of[q] : scaled ? codes_of(format, p, q, b_set1(0)) : codes_for_dot(format, p, f, q);
        UNROLL_16
        for (int m = 0; m < rows; m++) {
            v16i *sum = c[m] + (two_sums(format) || scaled ? q / 4 : 0);
            *sum = b_dot(*sum, code, ((const int32_t *)a->q[lane + m])[q]);
            B_NOW(*sum);
        }
    }
    UNROLL_16
    for (int m = 0; m < rows && scaled; m++)
        c[m][0] = vi_add(vi_mul(c[m][0], f->codes[0].low), vi_mul(c[m][1], f->codes[1].low));
}

#else

/* The same, by products in 16 bits. */
ALWAYS_INLINE void dot_rows(const int format, const uint8_t *p, const codes32 *codes, const factors *f,
                            const dt_quantised *a, int32_t lane, const int rows, v16i c[][2])
{
    const int groups = groups_in_words(format);
    b64 words[4];
    UNROLL_16
    for (int m = 0; m < rows; m++) begin_sums(format, f, a, lane + m, c[m]);
UNROLL_8
    for (int q = 0; q < 8; q++) {
        b64 code = codes ? codes->of[q] : codes_for_dot(format, p, f, q);
        B_NOW(code);
        const b64 size = signed_codes(format) ? b_size(code) : code;
        UNROLL_16
        for (int m = 0; m < rows; m++) {
            const b64 four = b_set4(((const int32_t *)a->q[lane + m])[q]);
            const b64 pairs = b_pairs(size, signed_codes(format) ? b_sign(four, code) : four);
            if (q % groups != 0) words[m] = b_add16(words[m], pairs);
            else words[m] = starts_words(format) ? b_add16(b_set4(both_words(a->less_by_pairs[lane + m][q / 4])), pairs) : pairs;
            B_NOW(words[m]);
            if (q % groups != groups - 1) continue;
            c[m][0] = vi_dot_words(c[m][0], words[m], scales_words(format) ? f->codes[q / 4] : vi_ones());
            B_NOW(c[m][0]);
        }
    }
}

#endif

/* ---- memory -------------------------------------------------------------------------------- */

#if DT_ISA == 1 || DT_ISA == 2
#define DT_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#define DT_PREFETCH_FAR(p) _mm_prefetch((const char *)(p), _MM_HINT_T1)
#elif DT_ISA == 3
#define DT_PREFETCH(p) __builtin_prefetch(p)
#define DT_PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2)
#else
#define DT_PREFETCH(p) ((void)0)
#define DT_PREFETCH_FAR(p) ((void)0)
#endif

enum {
    STREAMS = 2, /* block rows multiplied side by side: two streams from memory are faster than one */
    FAR = 28,    /* times 32 columns that are on their way to the second-level cache */
    NEAR = 4,    /* and to the first one, which has no room for more beside the activations */
};

/* Of a block row that begins at w, ask for what is multiplied some time after the b-th 32 columns. */
ALWAYS_INLINE void fetch_ahead(const int format, const uint8_t *w, int32_t b)
{
    const int32_t bytes = dt_block_bytes(format) * DT_BLOCK / dt_block_cols(format);
    const uint8_t *p = w + (int64_t)b * bytes;
    for (int line = 0; line < bytes; line += 64) DT_PREFETCH_FAR(p + FAR * bytes + line);
    for (int line = 0; line < bytes; line += 64) DT_PREFETCH(p + NEAR * bytes + line);
    (void)p;
}

/* Where the codes of the b-th 32 columns begin; behind the last of a block, its scales. */
ALWAYS_INLINE const uint8_t *codes_at(const int format, const uint8_t *w, int32_t b)
{
    const int32_t in_block = dt_block_cols(format) / DT_BLOCK;
    return w + (int64_t)(b / in_block) * dt_block_bytes(format) + b % in_block * dt_code_bytes(format);
}

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
