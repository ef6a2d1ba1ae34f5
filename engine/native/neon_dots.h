/* Integer dot products in NEON's registers. Included by blocks.h.
 *
 * Half of the sixteen rows at a time, so that the sums of up to eight rows of activations lie in
 * registers. SMULL multiplies bytes, SDOT sums four products, and SMMLA multiplies two rows with two.
 */

/* The codes of columns 4q..4q+3, of the rows 8 half..8 half + 7. */
typedef struct { int8x16_t low, high; } codes8;

ALWAYS_INLINE codes8 codes_of_half(const int format, const uint8_t *p, const int q, const int half)
{
    const b64 code = for_dot(format, codes_of(format, p, q));
    return (codes8){vreinterpretq_s8_u8(half ? code.c : code.a), vreinterpretq_s8_u8(half ? code.d : code.b)};
}

ALWAYS_INLINE void put_sums(v16i *c, const int half, int32x4_t low, int32x4_t high)
{
    if (half) c->c = low, c->d = high;
    else c->a = low, c->b = high;
}

/* Whether the q-th group of four columns begins a sum, or ends one. */
ALWAYS_INLINE int begins(const int format, const int q) { return q % (dt_in_halves(format) ? 4 : 8) == 0; }
ALWAYS_INLINE int ends(const int format, const int q) { return begins(format, q + 1); }

ALWAYS_INLINE int32x4_t start_of(const int format, const dt_row *row, const int q)
{
    v16i c[2];
    begin_sums(format, row, c);
    return c[dt_in_halves(format) && q >= 4].a;
}

#define EACH_GROUP(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define EACH_TWO_GROUPS(DO) DO(0) DO(2) DO(4) DO(6)

#ifdef DT_SDOT

#define SDOT_GROUP(Q)                                                                              \
    {                                                                                              \
        const codes8 code = codes_of_half(format, p, Q, half);                                     \
        for (int m = 0; m < rows; m++) {                                                           \
            const int8x16_t x = vld1q_s8(a->q[lane + m] + Q / 4 * 16);                             \
            if (begins(format, Q)) low[m] = high[m] = start_of(format, &a->row[lane + m], Q);      \
            low[m] = vdotq_laneq_s32(low[m], code.low, x, Q % 4);                                  \
            high[m] = vdotq_laneq_s32(high[m], code.high, x, Q % 4);                               \
            if (ends(format, Q)) put_sums(&c[m][dt_in_halves(format) ? Q / 4 : 0], half, low[m], high[m]); \
        }                                                                                          \
    }

ALWAYS_INLINE void dot_half(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                            const int rows, const int half, v16i c[][2])
{
    int32x4_t low[8], high[8];
    EACH_GROUP(SDOT_GROUP)
}

#else

/* Sums of products in 16 bits, four for each of two rows, and later in 32 bits, two for each. */
typedef struct { int16x8_t a, b, c, d; } words8;
typedef struct { int32x4_t a, b, c, d; } pairs8;

#define SMULL_GROUP(Q)                                                                             \
    {                                                                                              \
        const codes8 code = codes_of_half(format, p, Q, half);                                     \
        for (int m = 0; m < rows; m++) {                                                           \
            const int8x16_t x = vreinterpretq_s8_s32(vld1q_dup_s32((const int32_t *)a->q[lane + m] + Q)); \
            words8 *w = &words[m];                                                                 \
            if (Q % groups == 0) *w = multiplied(code, x);                                         \
            else add_multiplied(w, code, x);                                                       \
            if (Q % groups != groups - 1) continue;                                                \
            if (begins(format, Q + 1 - groups)) pairs[m] = added_up(*w);                           \
            else add_up(&pairs[m], *w);                                                            \
            if (!ends(format, Q)) continue;                                                        \
            const int32x4_t start = start_of(format, &a->row[lane + m], Q);                        \
            put_sums(&c[m][dt_in_halves(format) ? Q / 4 : 0], half,                                \
                     vaddq_s32(vpaddq_s32(pairs[m].a, pairs[m].b), start),                         \
                     vaddq_s32(vpaddq_s32(pairs[m].c, pairs[m].d), start));                        \
        }                                                                                          \
    }

ALWAYS_INLINE words8 multiplied(codes8 w, int8x16_t x)
{
    return (words8){vmull_s8(vget_low_s8(w.low), vget_low_s8(x)), vmull_high_s8(w.low, x),
                    vmull_s8(vget_low_s8(w.high), vget_low_s8(x)), vmull_high_s8(w.high, x)};
}

ALWAYS_INLINE void add_multiplied(words8 *sum, codes8 w, int8x16_t x)
{
    sum->a = vmlal_s8(sum->a, vget_low_s8(w.low), vget_low_s8(x));
    sum->b = vmlal_high_s8(sum->b, w.low, x);
    sum->c = vmlal_s8(sum->c, vget_low_s8(w.high), vget_low_s8(x));
    sum->d = vmlal_high_s8(sum->d, w.high, x);
}

ALWAYS_INLINE pairs8 added_up(words8 w)
{
    return (pairs8){vpaddlq_s16(w.a), vpaddlq_s16(w.b), vpaddlq_s16(w.c), vpaddlq_s16(w.d)};
}

ALWAYS_INLINE void add_up(pairs8 *sum, words8 w)
{
    sum->a = vpadalq_s16(sum->a, w.a), sum->b = vpadalq_s16(sum->b, w.b);
    sum->c = vpadalq_s16(sum->c, w.c), sum->d = vpadalq_s16(sum->d, w.d);
}

ALWAYS_INLINE void dot_half(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                            const int rows, const int half, v16i c[][2])
{
    const int groups = groups_in_words(format);
    words8 words[4];
    pairs8 pairs[4];
    EACH_GROUP(SMULL_GROUP)
}

#endif

#ifdef DT_SMMLA

/* Fewer rows are faster with SDOT: codes have to be brought side by side. */
enum { LEAST_PAIRED = 4 };

/* Groups q and q + 1 of two rows each: eight columns. */
typedef struct { int8x16_t of_two[4]; } codes_by_two;

ALWAYS_INLINE codes_by_two side_by_side(codes8 first, codes8 second)
{
#define ZIPPED(zip, x, y) vreinterpretq_s8_s32(zip(vreinterpretq_s32_s8(x), vreinterpretq_s32_s8(y)))
    return (codes_by_two){{ZIPPED(vzip1q_s32, first.low, second.low), ZIPPED(vzip2q_s32, first.low, second.low),
                           ZIPPED(vzip1q_s32, first.high, second.high), ZIPPED(vzip2q_s32, first.high, second.high)}};
}

/* With an odd number of rows the last one is a pair with itself. */
#define SMMLA_GROUPS(Q)                                                                            \
    {                                                                                              \
        const codes_by_two w = side_by_side(codes_of_half(format, p, Q, half),                     \
                                            codes_of_half(format, p, Q + 1, half));                \
        for (int m = 0; m < rows; m += 2) {                                                        \
            const int other = m + 1 < rows ? m + 1 : m;                                            \
            const int8x16_t x = vcombine_s8(vld1_s8(a->q[lane + m] + Q * 4),                       \
                                            vld1_s8(a->q[lane + other] + Q * 4));                  \
            int32x4_t *s = sums[m / 2];                                                            \
            if (begins(format, Q))                                                                 \
                s[0] = s[1] = s[2] = s[3] = vzip1q_s32(start_of(format, &a->row[lane + m], Q),     \
                                                       start_of(format, &a->row[lane + other], Q)); \
            s[0] = vmmlaq_s32(s[0], w.of_two[0], x), s[1] = vmmlaq_s32(s[1], w.of_two[1], x);      \
            s[2] = vmmlaq_s32(s[2], w.of_two[2], x), s[3] = vmmlaq_s32(s[3], w.of_two[3], x);      \
            if (!ends(format, Q + 1)) continue;                                                    \
            const int part = dt_in_halves(format) ? Q / 4 : 0;                                     \
            put_sums(&c[m][part], half, vuzp1q_s32(s[0], s[1]), vuzp1q_s32(s[2], s[3]));           \
            if (other > m)                                                                         \
                put_sums(&c[other][part], half, vuzp2q_s32(s[0], s[1]), vuzp2q_s32(s[2], s[3]));   \
        }                                                                                          \
    }

ALWAYS_INLINE void multiply_half(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                                 const int rows, const int half, v16i c[][2])
{
    int32x4_t sums[4][4];
    EACH_TWO_GROUPS(SMMLA_GROUPS)
}

#endif

/* The integer dot products of `rows` activation rows with 32 columns, or with 16 and 16. */
ALWAYS_INLINE void dot_rows(const int format, const uint8_t *p, const dt_quantised *a, int32_t lane,
                            const int rows, v16i c[][2])
{
#ifdef DT_SMMLA
    if (rows >= LEAST_PAIRED) {
        multiply_half(format, p, a, lane, rows, 0, c);
        multiply_half(format, p, a, lane, rows, 1, c);
        return;
    }
#endif
    dot_half(format, p, a, lane, rows, 0, c);
    dot_half(format, p, a, lane, rows, 1, c);
}
