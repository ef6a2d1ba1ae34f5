/* The kernels of draw.h, written once and compiled once per instruction set.
 *
 * draw_*.c includes this with DT_ISA and DT_DRAW set; it defines one table of functions.
 */
#include "draw.h"
#include "vector.h"
#include "integers.h"

#include <float.h>

enum { NOISE_BLOCK = 64 };

/* The lanes from `left` on are no tokens. */
static inline v16 load_some(const float *x, int32_t left, float otherwise)
{
    if (left >= 16) return v_load(x);
    float lane[16];
    for (int32_t l = 0; l < 16; l++) lane[l] = l < left ? x[l] : otherwise;
    return v_load(lane);
}

/* ---- the best logit ------------------------------------------------------------------------ */

static dt_peak find_peak(const float *row, int32_t from, int32_t to, float *tops)
{
    dt_peak peak = {-INFINITY, from, 0};
    int32_t group = from;
    for (int32_t i = from; i < to; i += DT_GROUP) {
        const int32_t end = to - i < DT_GROUP ? to : i + DT_GROUP;
        v16 top = v_set1(-INFINITY);
        v_mask nan = 0;
        for (int32_t j = i; j < end; j += 16) {
            const v16 x = load_some(row + j, end - j, -INFINITY);
            nan |= v_nan(x);
            top = v_max(x, top); /* a NaN leaves top as it is */
        }
        if (nan) peak.invalid = 1;
        if (tops) v_store(tops + i / DT_GROUP * 16, top);
        if (v_above(top, v_set1(peak.value))) peak.value = v_top(top), group = i;
    }
    for (peak.token = group; peak.token < to - 1 && row[peak.token] != peak.value;) peak.token++;
    return peak;
}

/* ---- probability mass ---------------------------------------------------------------------- */

/* 2^t * 2^shift for -126 <= t + shift; every step is one plain operation, as numpy does it. */
static inline v16 power_of_two(v16 t, int32_t shift)
{
    t = v_max(t, v_set1(-126.0f));
    const v16i whole = v_round_int(t);
    const v16 f = v_sub(t, v_from_int(whole));
    v16 p = v_set1(1.54035304e-4f);
    p = v_add(v_mul(p, f), v_set1(1.33335581e-3f));
    p = v_add(v_mul(p, f), v_set1(9.61812911e-3f));
    p = v_add(v_mul(p, f), v_set1(5.55041087e-2f));
    p = v_add(v_mul(p, f), v_set1(2.40226507e-1f));
    p = v_add(v_mul(p, f), v_set1(6.93147181e-1f));
    p = v_add(v_mul(p, f), v_set1(1.0f));
    return v_mul(p, vi_shift_exponent(vi_add(whole, vi_set1(127 + shift))));
}

#define LOG2_E 1.44269504f

static inline v16i weight_of(v16 below_peak)
{
    return v_round_int(power_of_two(v_mul(below_peak, v_set1(LOG2_E)), 30));
}

static void weigh(const float *x, int32_t count, float peak, int32_t *weight)
{
    for (int32_t i = 0; i < count; i += 16) {
        int32_t lane[16];
        vi_store(lane, weight_of(v_sub(load_some(x + i, count - i, -INFINITY), v_set1(peak))));
        memcpy(weight + i, lane, sizeof *lane * (size_t)(count - i < 16 ? count - i : 16));
    }
}

static void tally(const float *row, int32_t from, int32_t to, float peak, float far, int64_t *bins)
{
    for (int32_t group = from; group < to; group += DT_GROUP) {
        const int32_t end = to - group < DT_GROUP ? to : group + DT_GROUP;
        v16i rest = vi_set1(0); /* 16 weights of less than 2^26 each: nothing overflows */
        for (int32_t i = group; i < end; i += 16) {
            const v16 below = v_sub(load_some(row + i, end - i, -INFINITY), v_set1(peak));
            if (!v_above(below, v_set1(-22.0f))) continue; /* e^-22 < 2^-31: no weight */
            const v16i whole = weight_of(below), distant = vi_sign(v_bits(v_sub(below, v_set1(far))));
            rest = vi_add(rest, vi_and(whole, distant));
            v_mask near = v_not_below(below, v_set1(far));
            if (!near) continue;
            int32_t weight[16], bin[16];
            vi_store(weight, vi_and(whole, vi_xor(distant, vi_set1(-1))));
            vi_store(bin, v_round_int(v_mul(v_max(below, v_set1(-22.0f)), v_set1(DT_BIN_SCALE))));
            if (near & (near - 1))
                for (int l = 0; l < 16; l++) bins[bin[l]] += weight[l];
            else
                bins[bin[__builtin_ctz(near)]] += weight[__builtin_ctz(near)];
        }
        int32_t lane[16];
        vi_store(lane, rest);
        for (int l = 0; l < 16; l++) bins[DT_BINS - 1] += lane[l];
    }
}

static int32_t gather(const float *row, int32_t from, int32_t to, float low, float below,
                      int32_t *tokens)
{
    int32_t count = 0;
    for (int32_t i = from; i < to; i += 16) {
        const v16 x = load_some(row + i, to - i, NAN);
        v_mask hits = v_not_below(x, v_set1(low));
        if (hits) hits &= v_above(v_set1(below), x);
        for (; hits; hits &= hits - 1) tokens[count++] = i + __builtin_ctz(hits);
    }
    return count;
}

/* ---- noise, and the tokens that are best with it ------------------------------------------- */

/* Four words for each of 16 counters. */
static inline void philox(const dt_noise *noise, v16i c0, v16i word[4])
{
    v16i c1 = vi_set1((int32_t)noise->position), c2 = vi_set1(0), c3 = c2;
    for (int r = 0; r < DT_ROUNDS; r++) {
        v16i high0, low0, high2, low2;
        vi_product(c0, vi_set1((int32_t)0xD2511F53u), &high0, &low0);
        vi_product(c2, vi_set1((int32_t)0xCD9E8D57u), &high2, &low2);
        c0 = vi_xor3(high2, c1, vi_set1((int32_t)noise->key[r][0]));
        c1 = low2;
        c2 = vi_xor3(high0, c3, vi_set1((int32_t)noise->key[r][1]));
        c3 = low0;
    }
    word[0] = c0, word[1] = c1, word[2] = c2, word[3] = c3;
}

/* The words of the 64 tokens from `first` on, a multiple of 64, in four registers. */
static inline void noise_words(const dt_noise *noise, int32_t first, v16i word[4])
{
    static const int32_t lanes[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    philox(noise, vi_add(vi_set1(first / 4), vi_load(lanes)), word);
}

/* b where a bit of the tokens is 0, a where it is 1. */
static inline v16i pick_by_bit(v16i tokens, int bit, v16i a, v16i b)
{
    const v16i one = vi_set1(1), set = vi_and(vi_shift_right(tokens, bit), one);
    const v16i mask = vi_add(vi_xor(set, one), vi_set1(-1));
    return vi_xor(b, vi_and(vi_xor(a, b), mask));
}

/* The words of any 64 tokens, each from a counter of its own: see dt_noise_word. */
static inline void noise_words_of(const dt_noise *noise, const int32_t *tokens, v16i word[4])
{
    for (int j = 0; j < 4; j++) {
        const v16i token = vi_load(tokens + 16 * j);
        const v16i high = vi_and(vi_shift_right(token, 2), vi_set1(~15));
        v16i four[4];
        philox(noise, vi_or(high, vi_and(token, vi_set1(15))), four);
        word[j] = pick_by_bit(token, 5, pick_by_bit(token, 4, four[3], four[2]),
                              pick_by_bit(token, 4, four[1], four[0]));
    }
}

/* At least the noise, at most about 0.1 more where it is large. With v = 1 - u the noise is
 * -ln(-ln(1 - v)) <= -ln v, and log2 of a float is at least its bits / 2^23 - 127. */
static inline v16 noise_bound(v16i word)
{
    const v16i n = vi_shift_right(vi_xor(word, vi_set1(-1)), 1); /* n / 2^31 <= v */
    const v16 log2_bits = v_from_int(v_bits(v_from_int(n)));
    return v_sub(v_set1(158 * 0.693147181f), v_mul(log2_bits, v_set1(0x1p-23f * 0.693147181f)));
}

#define MOST_NOISE 22.9f /* -ln(-ln(1 - 2^-33)) = 22.87 */
#define SLACK 0.002f     /* more than the bounds' rounding errors */

/* -ln u to about 1e-6 relative. By ln x = k ln 2 + 2 artanh(f / (2 + f)), x = 2^k (1 + f), where
 * f = u - 1 and k = 0 for u >= 1/2: so nothing is lost where u is close to 1. */
static inline v16 exponential(v16i word)
{
    const v16i upper = vi_sign(word); /* u >= 1/2: go on with 1 - u */
    const v16 half_units = v_add(v_from_int(vi_xor(word, upper)), v_set1(0.5f));
    const v16 y = v_mul(half_units, v_set1(0x1p-32f));
    const v16i bits = v_bits(y);
    const v16 one_to_two = vi_as_float(vi_or(vi_and(bits, vi_set1(0x7fffff)), vi_set1(0x3f800000)));
    const v16 f = v_pick(upper, v_sub(v_zero(), y), v_sub(one_to_two, v_set1(1.0f)));
    const v16 k = v_pick(upper, v_zero(), v_from_int(vi_add(vi_shift_right(bits, 23), vi_set1(-127))));
    const v16 s = v_div(f, v_add(f, v_set1(2.0f))), z = v_mul(s, s);
    v16 p = v_set1(1.0f / 9);
    p = v_add(v_mul(p, z), v_set1(1.0f / 7));
    p = v_add(v_mul(p, z), v_set1(1.0f / 5));
    p = v_add(v_mul(p, z), v_set1(1.0f / 3));
    p = v_add(v_mul(p, z), v_set1(1.0f));
    const v16 ln = v_add(v_mul(k, v_set1(0.693147181f)), v_mul(v_add(s, s), p));
    return v_sub(v_zero(), ln);
}

/* Registers of tokens all this far below the peak are not summed up; 1e-7 of it each, so even a
 * whole vocabulary of them would hardly change the sum. */
#define NO_MASS (-16.0f)

/* Below this no score can be among the best any more. */
static float raise_limit(dt_search *s, const dt_found *found)
{
    double limit = atomic_load_explicit(&s->promise, memory_order_relaxed);
    if (found->count == s->width && found->best[s->width - 1].score > limit) {
        limit = found->best[s->width - 1].score;
        atomic_store_explicit(&s->promise, limit, memory_order_relaxed); /* losing a race is harmless */
    }
    return (float)limit - SLACK;
}

/* The exact scores of the tokens in `hits`; x and word hold 16 tokens from `first` on. */
static void try_hits(dt_search *s, v_mask hits, int32_t first, v16 x, v16i word, dt_found *found)
{
    float logit[16];
    uint32_t bits[16];
    v_store(logit, x);
    vi_store((int32_t *)bits, word);
    for (; hits; hits &= hits - 1) {
        const int l = __builtin_ctz(hits);
        if (logit[l] == s->cut.value && first + l > s->cut.token) continue;
        double score = ((double)logit[l] - (double)s->peak) / s->temperature;
        if (s->noise) score += dt_gumbel(bits[l]);
        if (score > -INFINITY) dt_insert(found, s->width, score, s->ids ? s->ids[first + l] : first + l);
    }
}

static inline void search_with(dt_search *s, int32_t from, int32_t to, dt_found *found, int noisy,
                               int weighs)
{
    const double pace = s->temperature < 1e-30 ? 1e30 : 1 / s->temperature;
    /* A little too slow, so that no score is above its bound. */
    const v16 scale = v_set1((float)pace * 0.999999f), exact = v_set1((float)pace * LOG2_E);
    const v16 peak = v_set1(s->peak), cut = v_set1(s->cut.value);
    v16 mass = v_zero();
    found->count = 0;
    float limit = raise_limit(s, found);
    for (int32_t i = from; i < to; i += NOISE_BLOCK) {
        v16 x[4], below[4], top = v_set1(-INFINITY);
        v16i word[4] = {vi_set1(0), vi_set1(0), vi_set1(0), vi_set1(0)};
        v_mask inside = 0;
        for (int j = 0; j < 4; j++) {
            x[j] = load_some(s->row + i + 16 * j, to - i - 16 * j, -INFINITY);
            below[j] = v_max(v_sub(x[j], peak), v_set1(-FLT_MAX));
            top = v_max(top, below[j]);
            inside |= v_not_below(x[j], cut);
        }
        top = v_mul(top, scale);
        const int counts = weighs && v_above(top, v_set1(NO_MASS));
        const int wins = inside && v_above(top, v_set1(noisy ? limit - MOST_NOISE : limit));
        if (!counts && !wins) continue;
        if (noisy && s->ids) noise_words_of(s->noise, s->ids + i, word);
        else if (noisy) noise_words(s->noise, i, word);
        for (int j = 0; j < 4; j++) {
            const v16 scaled = v_mul(below[j], scale);
            if (counts && v_above(scaled, v_set1(NO_MASS))) {
                const v16 weight = power_of_two(v_mul(below[j], exact), 0);
                mass = v_add(mass, noisy ? v_div(weight, exponential(word[j])) : weight);
            }
            const v16 bound = noisy ? v_add(scaled, noise_bound(word[j])) : scaled;
            const v_mask hits = v_above(bound, v_set1(limit)) & v_not_below(x[j], cut);
            if (!hits) continue;
            try_hits(s, hits, i + 16 * j, x[j], word[j], found);
            limit = raise_limit(s, found);
        }
    }
    found->mass = v_sum(mass);
}

static void search(dt_search *s, int32_t from, int32_t to, dt_found *found)
{
    if (s->noise && s->weigh) search_with(s, from, to, found, 1, 1);
    else if (s->noise) search_with(s, from, to, found, 1, 0);
    else search_with(s, from, to, found, 0, 1);
}

const dt_draw_kernels DT_DRAW = {find_peak, weigh, tally, gather, search};
