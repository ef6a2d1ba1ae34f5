/* Blocks of quantised weights in registers: codes of 16 rows x 32 columns and their factors, and what
 * a block adds to a product. Included by kernels.h. */

/* Groups of columns one by one, where shifts have to be known to the compiler. */
#if DT_ISA
#define UNROLL_8 _Pragma("GCC unroll 8")
#define UNROLL_16 _Pragma("GCC unroll 16")
#else
#define UNROLL_8
#endif

/* Arrays of sums lie in registers only once their loops are gone, which GCC has to be told where a sum is
 * made of several registers. */
#if DT_ISA == 3 || defined(DT_VNNI)
#define UNROLL_SUMS UNROLL_16
#else
#define UNROLL_SUMS
#endif

/* ---- codes --------------------------------------------------------------------------------- */

#if DT_ISA == 3 || (DT_ISA == 1 && !defined(DT_VNNI))
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
    return f.bits == 8 || f.table == IQ4_TABLE ? 128 : f.table == E2M1_TABLE ? 12 : f.bias;
}

ALWAYS_INLINE b64 moved(b64 a, const int right) { return right < 0 ? b_left(a, -right) : b_right(a, right); }

ALWAYS_INLINE b64 nibbles(b64 a, const int high)
{
    if (DT_ISA == 3 && high) return b_right(a, 4); /* byte by byte: nothing comes in from a neighbour */
    return b_and(moved(a, high * 4), b_set1(15));
}

/* The codes of columns 4q..4q+3; see formats.h for the planes. */
ALWAYS_INLINE b64 codes_of(const int format, const uint8_t *p, const int q)
{
    const int bits = dt_formats[format].bits;
    if (bits == 8) return b_load(p + q * 64);
    b64 code = b_set1(0);
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
    [E2M1_TABLE] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
};

ALWAYS_INLINE b64 for_dot(const int format, b64 code)
{
    const int table = dt_formats[format].table;
    if (signed_codes(format)) return table ? b_look((const uint8_t *)dt_tables[table], code) : code;
    if (table) return b_look(unsigned_tables[table], code);
#if !SIGNED_BYTES
    if (format == DT_Q8) return b_xor(code, b_set1(128));
#endif
    return code;
}

/* ---- factors ------------------------------------------------------------------------------- */

/* A block's scales, opened: those of 16 rows, and bytes of the smaller ones. */
typedef struct {
    v16 d, m;
    uint8_t s[256];
} scales16;

/* What the dot products of 32 columns are multiplied with; half and low are numbers of 16 columns. */
typedef struct {
    v16 scale, offset, half[2], low[2];
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
    if (dt_formats[format].scales == SIX_MIN) opened->m = v_sub(v_zero(), opened->m);
    if (dt_block_cols(format) > DT_BLOCK) dt_open_scales(format, p, opened->s);
}

/* Those of the block's columns 32 j..32 j + 31. */
ALWAYS_INLINE factors factors_of(const int format, const scales16 *opened, const int32_t j)
{
    const int scales = dt_formats[format].scales;
    const uint8_t *s = opened->s;
    factors f = {opened->d, opened->m, {v_zero(), v_zero()}, {v_zero(), v_zero()}};
    if (scales == SIX_MIN) {
        f.scale = v_mul(opened->d, v_from_int(vi_from_u8(s + j * 16)));
        f.offset = v_mul(opened->m, v_from_int(vi_from_u8(s + 128 + j * 16)));
    } else if (scales == SIX_OF_32)
        f.scale = v_mul(opened->d, v_sub(v_from_int(vi_from_u8(s + j * 16)), v_set1(32)));
    else if (scales >= SIX_OF_16)
        for (int h = 0; h < 2; h++) {
            const uint8_t *of = s + j * 32 + h * 16;
            const v16i byte = scales == BYTE_OF_16 ? vi_from_i8(of) : vi_from_u8(of);
            f.half[h] = v_from_int(scales == NIBBLES_OF_16 ? vi_low_nibble(byte) : byte);
            if (scales == SIX_OF_16) f.half[h] = v_sub(f.half[h], v_set1(32));
            if (scales == NIBBLES_OF_16) f.low[h] = v_from_int(vi_high_nibble(byte));
        }
    if (scales == NIBBLES_OF_16) f.offset = v_mul(opened->m, v_set1(0.125f));
    return f;
}

/* ---- what a block adds --------------------------------------------------------------------- */

/* acc + 32 columns' part of a product, whose integer dot products are c[0] and, of the second 16
 * columns, c[1] where those have a scale of their own. The one order of it, everywhere:
 *   acc = fma(c, scale * a.scale, acc)
 *   acc = fma(offset, a.total, acc)                                         where there is an offset
 * In halves, c = half[0] * c[0] + half[1] * c[1], and the offset is m * a.scale times a sum of
 * integers; these are below 2^24, so that floats hold them exactly. */
ALWAYS_INLINE v16 add_block(const int format, const factors *f, const v16i *c, const dt_row *a, v16 acc)
{
    const v16 scale = v_mul(f->scale, v_set1(a->scale));
    if (!dt_in_halves(format)) {
        acc = v_fma(v_from_int(c[0]), scale, acc);
        return dt_has_offset(format) ? v_fma(f->offset, v_set1(a->total), acc) : acc;
    }
    const v16 first = v_mul(f->half[0], v_from_int(c[0]));
    acc = v_fma(v_fma(f->half[1], v_from_int(c[1]), first), scale, acc);
    if (!dt_has_offset(format)) return acc;
    const v16 low = v_mul(f->low[0], v_set1((float)a->first));
    const v16 sum = v_fma(f->low[1], v_set1((float)(a->start - a->first)), low);
    return v_fma(sum, v_mul(f->offset, v_set1(a->scale)), acc);
}

/* ---- dot products -------------------------------------------------------------------------- */

/* What takes back that a number is added to codes; start is -8 times a sum of activations. */
ALWAYS_INLINE v16i taken_back(const int format, int32_t start)
{
    const int number = added(format);
    return vi_set1(number % 8 ? (start >> 3) * number : start * (number / 8));
}

/* Where sums begin: c[0], and c[1] of the second 16 columns where those have a scale of their own. */
ALWAYS_INLINE void begin_sums(const int format, const dt_row *row, v16i c[2])
{
    c[0] = taken_back(format, dt_in_halves(format) ? row->first : row->start);
    if (dt_in_halves(format)) c[1] = taken_back(format, row->start - row->first);
}

/* Instruction sets whose registers hold sums alone: a group of codes is opened once for all rows. */
#define BY_ROWS (DT_ISA == 1 || DT_ISA == 3)

#if BY_ROWS

/* How many groups of four columns can be summed in 16 bits: a product is at most 127 * (the largest
 * code), and AVX2 adds pairs of them. */
ALWAYS_INLINE int groups_in_words(const int format)
{
    const int largest = signed_codes(format)                       ? 128
                        : dt_formats[format].table == E2M1_TABLE ? 24
                                                                 : (1 << dt_formats[format].bits) - 1;
    const int products = DT_ISA == 1 ? 2 : 1, fit = 32767 / (127 * largest * products);
    if (fit >= 8 && !dt_in_halves(format)) return 8;
    return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

#endif

#if DT_ISA == 3

#include "neon_products.h"

#elif defined(DT_VNNI)

/* The integer dot products of `rows` activation rows with 32 columns, or with 16 and 16. A group of
 * codes is opened once for all rows, and only sums lie in registers. */
ALWAYS_INLINE void dot_rows(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                            const int rows, v16i c[][2])
{
    UNROLL_SUMS
    for (int m = 0; m < rows; m++) begin_sums(format, &a->row[lane + m], c[m]);
UNROLL_8
    for (int q = 0; q < 8; q++) {
        const b64 code = for_dot(format, codes_of(format, p, q));
        UNROLL_SUMS
        for (int m = 0; m < rows; m++) {
            v16i *sum = c[m] + (dt_in_halves(format) ? q / 4 : 0);
            *sum = b_dot(*sum, code, b_set4(((const int32_t *)a->q[lane + m])[q]));
            B_NOW(*sum);
        }
    }
}

#elif DT_ISA == 1

/* The same, by products in 16 bits. */
ALWAYS_INLINE void dot_rows(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                            const int rows, v16i c[][2])
{
    const int groups = groups_in_words(format);
    b64 words[4];
    for (int m = 0; m < rows; m++) begin_sums(format, &a->row[lane + m], c[m]);
UNROLL_8
    for (int q = 0; q < 8; q++) {
        b64 code = for_dot(format, codes_of(format, p, q));
        B_NOW(code);
        const b64 size = signed_codes(format) ? b_size(code) : code;
        for (int m = 0; m < rows; m++) {
            const b64 four = b_set4(((const int32_t *)a->q[lane + m])[q]);
            const b64 pairs = b_pairs(size, signed_codes(format) ? b_sign(four, code) : four);
            words[m] = q % groups == 0 ? pairs : b_add16(words[m], pairs);
            B_NOW(words[m]);
            v16i *sum = c[m] + (dt_in_halves(format) ? q / 4 : 0);
            if (q % groups != groups - 1) continue;
            *sum = vi_add(*sum, vi_of_words(words[m]));
            B_NOW(*sum);
        }
    }
}

#else

typedef struct { b64 w[8]; } codes32;

ALWAYS_INLINE codes32 load_codes(const int format, const uint8_t *p)
{
    codes32 codes;
UNROLL_8
    for (int q = 0; q < 8; q++) codes.w[q] = for_dot(format, codes_of(format, p, q));
    return codes;
}

/* The integer dot products of an activation row with 32 columns, or with 16 and 16. */
ALWAYS_INLINE void dot32(const int format, const codes32 *codes, const dt_quantised *a, int32_t lane, v16i c[2])
{
    const int32_t *four = (const int32_t *)a->q[lane];
    begin_sums(format, &a->row[lane], c);
UNROLL_8
    for (int q = 0; q < 8; q++) {
        v16i *sum = c + (dt_in_halves(format) ? q / 4 : 0);
        *sum = b_dot(*sum, codes->w[q], four[q]);
    }
}

#endif

/* ---- memory -------------------------------------------------------------------------------- */

#if DT_ISA == 1 || DT_ISA == 2
#define DT_PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#elif DT_ISA == 3
#define DT_PREFETCH(p) __builtin_prefetch(p)
#else
#define DT_PREFETCH(p) ((void)0)
#endif

enum {
    STREAMS = 2, /* block rows multiplied side by side: two streams from memory are faster than one */
    AHEAD = 12,  /* times 32 columns that are fetched ahead */
};

ALWAYS_INLINE void fetch_ahead(const int format, const uint8_t *p)
{
    const int32_t bytes = dt_block_bytes(format) * DT_BLOCK / dt_block_cols(format);
    for (int line = 0; line < bytes; line += 64) DT_PREFETCH(p + AHEAD * bytes + line);
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
