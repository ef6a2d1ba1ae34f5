/* What 32 columns add to products, in NEON's registers. Included by blocks.h.
 *
 * Half of the sixteen rows of weights at a time, so that all sums lie in registers. SMULL multiplies bytes,
 * SDOT adds up four products, and SMMLA multiplies two rows of eight bytes with two.
 */

/* The codes of columns 4q..4q+3; p is 32 bytes further for the second half. */
typedef struct { int8x16_t low, high; } codes8;

ALWAYS_INLINE codes8 signed_for_dot(const int format, const uint8_t *p, const factors *f, const int q)
{
    const b64 code = codes_for_dot(format, p, f, q);
    return (codes8){vreinterpretq_s8_u8(code.low), vreinterpretq_s8_u8(code.high)};
}

/* Whether the q-th group of four columns begins a sum, or ends one. */
ALWAYS_INLINE int begins(const int format, const int q) { return q % (dt_in_halves(format) ? 4 : 8) == 0; }
ALWAYS_INLINE int ends(const int format, const int q) { return begins(format, q + 1); }

/* Which of the sums the q-th group belongs to, and what it begins with. */
ALWAYS_INLINE int part_of(const int format, const int q) { return dt_in_halves(format) ? q / 4 : 0; }
ALWAYS_INLINE int32x4_t start_of(const int format, const factors *f, const dt_quantised *a, int32_t row, const int q)
{
    v16i c[2];
    begin_sums(format, f, a, row, c);
    return c[part_of(format, q)].a;
}

ALWAYS_INLINE void put_sums(v16i *c, const int half, int32x4_t low, int32x4_t high)
{
    if (half) c->c = low, c->d = high;
    else c->a = low, c->b = high;
}

/* Compute them now: GCC would put sums off and run out of registers. */
#define NOW(x, y) __asm__ volatile("" : "+w"(x), "+w"(y))
/* Load from there again: codes that are kept since the first time would take registers from the sums. */
#define AGAIN(p) __asm__("" : "+r"(p))

#define EACH_GROUP(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define EACH_TWO_GROUPS(DO) DO(0) DO(2) DO(4) DO(6)

/* ---- SDOT ---------------------------------------------------------------------------------- */

#ifdef DT_SDOT

#ifdef DT_SMMLA /* rows lie by two: see rows.h */
#define ADD_DOTS(sum, codes, row, Q) vdotq_lane_s32(sum, codes, vld1_s8(dt_eight(a, row, Q / 2)), Q % 2)
#else
#define ADD_DOTS(sum, codes, row, Q) vdotq_laneq_s32(sum, codes, vld1q_s8(a->q[row] + Q / 4 * 16), Q % 4)
#endif

#define SDOT_GROUP(Q)                                                                              \
    {                                                                                              \
        if (Q == 4) AGAIN(p);                                                                      \
        const codes8 code = signed_for_dot(format, p, f, Q);                                       \
        UNROLL_16                                                                                \
        for (int m = 0; m < rows; m++) {                                                           \
            if (begins(format, Q)) low[m] = high[m] = start_of(format, f, a, lane + m, Q);   \
            low[m] = ADD_DOTS(low[m], code.low, lane + m, Q);                                      \
            high[m] = ADD_DOTS(high[m], code.high, lane + m, Q);                                   \
            NOW(low[m], high[m]);                                                                  \
            if (ends(format, Q)) put_sums(&c[m][part_of(format, Q)], half, low[m], high[m]);       \
        }                                                                                          \
    }

ALWAYS_INLINE void dot_half(const int format, const uint8_t *p, const factors *f, const dt_quantised *a,
                            int32_t lane, const int rows, const int half, v16i c[][2])
{
    int32x4_t low[8], high[8];
    EACH_GROUP(SDOT_GROUP)
}

/* ---- SMULL --------------------------------------------------------------------------------- */

#else

/* Of eight rows: four sums each in 16 bits, and later two in 32 bits. */
typedef struct { int16x8_t a, b, c, d; } words8;
typedef struct { int32x4_t a, b, c, d; } pairs8;

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

#define SMULL_GROUP(Q)                                                                             \
    {                                                                                              \
        if (Q == 4) AGAIN(p);                                                                      \
        const codes8 code = signed_for_dot(format, p, f, Q);                                       \
        UNROLL_16                                                                                \
        for (int m = 0; m < rows; m++) {                                                           \
            const int32_t *four = (const int32_t *)a->q[lane + m] + Q;                             \
            const int8x16_t x = vreinterpretq_s8_s32(vld1q_dup_s32(four));                         \
            words8 *w = &words[m];                                                                 \
            if (Q % groups == 0) *w = multiplied(code, x);                                         \
            else add_multiplied(w, code, x);                                                       \
            NOW(w->a, w->b);                                                                       \
            NOW(w->c, w->d);                                                                       \
            if (Q % groups != groups - 1) continue;                                                \
            if (begins(format, Q + 1 - groups)) pairs[m] = added_up(*w);                           \
            else add_up(&pairs[m], *w);                                                            \
            if (!ends(format, Q)) continue;                                                        \
            const int32x4_t start = start_of(format, f, a, lane + m, Q);                     \
            put_sums(&c[m][part_of(format, Q)], half,                                              \
                     vaddq_s32(vpaddq_s32(pairs[m].a, pairs[m].b), start),                         \
                     vaddq_s32(vpaddq_s32(pairs[m].c, pairs[m].d), start));                        \
        }                                                                                          \
    }

ALWAYS_INLINE void dot_half(const int format, const uint8_t *p, const factors *f, const dt_quantised *a,
                            int32_t lane, const int rows, const int half, v16i c[][2])
{
    const int groups = groups_in_words(format);
    words8 words[4];
    pairs8 pairs[4];
    EACH_GROUP(SMULL_GROUP)
}

#endif

/* ---- SMMLA --------------------------------------------------------------------------------- */

#ifdef DT_SMMLA

/* Fewer rows are faster with SDOT: codes have to be brought side by side. */
enum { LEAST_PAIRED = 4 };

/* Eight columns of two rows of weights each. */
typedef struct { int8x16_t of_two[4]; } codes_by_two;

ALWAYS_INLINE codes_by_two side_by_side(codes8 first, codes8 second)
{
#define ZIPPED(zip, x, y) vreinterpretq_s8_s32(zip(vreinterpretq_s32_s8(x), vreinterpretq_s32_s8(y)))
    return (codes_by_two){{ZIPPED(vzip1q_s32, first.low, second.low), ZIPPED(vzip2q_s32, first.low, second.low),
                           ZIPPED(vzip1q_s32, first.high, second.high), ZIPPED(vzip2q_s32, first.high, second.high)}};
}

/* With an odd number of rows the last one's fellow is whatever lies there. */
#define SMMLA_GROUPS(Q)                                                                            \
    {                                                                                              \
        if (Q == 4) AGAIN(p);                                                                      \
        const codes_by_two w = side_by_side(signed_for_dot(format, p, f, Q),                       \
                                            signed_for_dot(format, p, f, Q + 1));                  \
        for (int m = 0; m < rows; m += 2) {                                                        \
            const int8x16_t x = vld1q_s8(dt_eight(a, lane + m, Q / 2));                            \
            int32x4_t *s = sums[m / 2];                                                            \
            if (begins(format, Q))                                                                 \
                s[0] = s[1] = s[2] = s[3] =                                                        \
                    vzip1q_s32(start_of(format, f, a, lane + m, Q), start_of(format, f, a, lane + m + 1, Q)); \
            s[0] = vmmlaq_s32(s[0], w.of_two[0], x), s[1] = vmmlaq_s32(s[1], w.of_two[1], x);      \
            s[2] = vmmlaq_s32(s[2], w.of_two[2], x), s[3] = vmmlaq_s32(s[3], w.of_two[3], x);      \
            NOW(s[0], s[1]);                                                                       \
            NOW(s[2], s[3]);                                                                       \
            if (!ends(format, Q + 1)) continue;                                                    \
            const int part = part_of(format, Q);                                                   \
            put_sums(&c[m][part], half, vuzp1q_s32(s[0], s[1]), vuzp1q_s32(s[2], s[3]));           \
            if (m + 1 == rows) continue;                                                           \
            put_sums(&c[m + 1][part], half, vuzp2q_s32(s[0], s[1]), vuzp2q_s32(s[2], s[3]));       \
        }                                                                                          \
    }

ALWAYS_INLINE void multiply_half(const int format, const uint8_t *p, const factors *f, const dt_quantised *a,
                                 int32_t lane, const int rows, const int half, v16i c[][2])
{
    int32x4_t sums[4][4];
    EACH_TWO_GROUPS(SMMLA_GROUPS)
}

#endif

/* ---- and what is added --------------------------------------------------------------------- */

ALWAYS_INLINE void put_half(v16 *to, const int half, v16 from)
{
    if (half) to->c = from.c, to->d = from.d;
    else to->a = from.a, to->b = from.b;
}

ALWAYS_INLINE void add_half(const int format, const uint8_t *p, const factors *f, const dt_quantised *a,
                            int32_t lane, const int rows, const int half, accumulated *acc)
{
    v16i c[8][2]; /* half of each */
    factors of_half = *f; /* and the first half of its tables */
    for (int h = 0; h < 2 && half; h++) {
        code_factors *table = &of_half.codes[h];
        table->low.a = table->low.c, table->low.b = table->low.d;
        table->high.a = table->high.c, table->high.b = table->high.d;
    }
    UNROLL_16
    for (int m = 0; m < rows; m++) c[m][0] = c[m][1] = vi_set1(0);
#ifdef DT_SMMLA
    if (rows >= LEAST_PAIRED) multiply_half(format, p, &of_half, a, lane, rows, half, c);
    else
#endif
        dot_half(format, p, &of_half, a, lane, rows, half, c);
    UNROLL_16
    for (int m = 0; m < rows; m++) {
        accumulated sum = acc[m];
        add_offsets(format, f, a, lane + m, &sum);
        add_block(format, f, c[m], a, lane + m, &sum);
        put_half(&acc[m].y, half, sum.y);
        put_half(&acc[m].block, half, sum.block);
    }
}

/* acc [rows] + 32 columns' part of a product with `rows` rows of activations. */
ALWAYS_INLINE void add_rows(const int format, const uint8_t *p, const factors *f, const dt_quantised *a,
                            int32_t lane, const int rows, accumulated *acc)
{
    add_half(format, p, f, a, lane, rows, 0, acc);
    if (rows > 4) AGAIN(a);
    add_half(format, p + 32, f, a, lane, rows, 1, acc);
}
