/* Attention over one chunk of keys and values in 8 bits. Included by kernels.h.
 *
 * Queries, and what values are weighted with, become integers of 16 bits; sums of products are exact
 * integers: 32 * 127 * 32767 of a block of keys and 64 * 127 * 32767 of a chunk of values fit 32 bits.
 */

/* Scores of 16 * wide keys from k on, to share[..][k..]. Per block, in ascending order, one fma. */
ALWAYS_INLINE const char *score8(const int8_t *keys, const uint16_t *scales, const char *next, int32_t dim,
                                 const dt_query *query, const int32_t rows, const int32_t wide, float (*share)[DT_CHUNK], int32_t k)
{
    v16 acc[MOST_QUERIES];
    UNROLL_SUMS
    for (int32_t i = 0; i < rows * wide; i++) acc[i] = v_zero();
    for (int32_t from = 0; from < dim; from += DT_BLOCK, scales += DT_CHUNK) {
        v16i sum[MOST_QUERIES];
        UNROLL_SUMS
        for (int32_t i = 0; i < rows * wide; i++) sum[i] = vi_set1(0);
        const int32_t to = from + DT_BLOCK < dim ? from + DT_BLOCK : dim;
        for (int32_t d = from; d < to; d += 2) {
            next = fetch_lines(next, d / 2, wide);
            UNROLL_SUMS
            for (int32_t g = 0; g < wide; g++) {
                const v32w key = vw_from_i8(keys + d * DT_CHUNK + 2 * (k + 16 * g));
                UNROLL_SUMS
                for (int32_t m = 0; m < rows; m++)
                    sum[m * wide + g] = vi_dot_pairs(sum[m * wide + g], key, query[m].words + d);
            }
        }
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            const v16 scale = v_load_f16(scales + k + 16 * g);
            UNROLL_SUMS
            for (int32_t m = 0; m < rows; m++)
                acc[m * wide + g] = v_fma(v_from_int(sum[m * wide + g]), scale, acc[m * wide + g]);
        }
    }
    for (int32_t m = 0; m < rows; m++)
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++)
            v_store(share[m] + k + 16 * g, v_mul(acc[m * wide + g], v_set1(query[m].scale)));
    return next;
}

/* Numbers [d, d + 16 * wide) of what the values that are seen make together; step: what an integer
 * stands for. Returns where `next` has come to. */
ALWAYS_INLINE const char *mix8(const int8_t *values, const char *next, int32_t dim, int32_t d, dt_span seen,
                               int16_t (*words)[DT_CHUNK], const int32_t rows, const int32_t wide,
                               const float *kept, const float *step, float *const *mixed)
{
    v16i acc[MOST_QUERIES];
    UNROLL_SUMS
    for (int32_t i = 0; i < rows * wide; i++) acc[i] = vi_set1(0);
    for (int32_t k = seen.from / 2 * 2; k < seen.to; k += 2) {
        next = fetch_lines(next, k / 2, wide);
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            const v32w value = vw_from_i8(values + k * dim + 2 * (d + 16 * g));
            UNROLL_SUMS
            for (int32_t m = 0; m < rows; m++)
                acc[m * wide + g] = vi_dot_pairs(acc[m * wide + g], value, words[m] + k);
        }
    }
    for (int32_t m = 0; m < rows; m++)
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            float *place = mixed[m] + d + 16 * g;
            const v16 old = v_mul(v_load(place), v_set1(kept[m]));
            v_store(place, v_add(old, v_mul(v_from_int(acc[m * wide + g]), v_set1(step[m]))));
        }
    return next;
}

/* As attend_rows, with keys [dim / 2][64][2] and values [32][dim][2], and behind them their scales in
 * fp16: of keys [dim / 32][64], of values [64]. */
ALWAYS_INLINE void attend_rows8(
    dt_chunk chunk, const char *next, int32_t dim, const dt_query *query, const dt_span *visible,
    const int32_t rows, float cap, float *peak, float *total, float *const *mixed)
{
    const int32_t wide = wide_for(rows);
    const int8_t *keys = (const int8_t *)chunk.keys, *values = (const int8_t *)chunk.values;
    const uint16_t *key_scales = chunk.keys + DT_CHUNK / 2 * dim;
    const uint16_t *value_scales = chunk.values + DT_CHUNK / 2 * dim;
    float share[MOST_QUERIES][DT_CHUNK], kept[MOST_QUERIES], fresh[MOST_QUERIES];
    int16_t words[MOST_QUERIES][DT_CHUNK];
    const dt_span seen = seen_by_any(visible, rows);
    for (int32_t k = seen.from / (16 * wide) * 16 * wide; k < seen.to; k += 16 * wide)
        next = score8(keys, key_scales, next, dim, query, rows, wide, share, k);
    weigh(share, visible, rows, cap, peak, total, kept, fresh);
    for (int32_t m = 0; m < rows; m++) {
        float weighted[DT_CHUNK] = {0};
        for (int32_t k = 0; k < DT_CHUNK; k += 16)
            v_store(share[m] + k, v_mul(v_load(share[m] + k), v_load_f16(value_scales + k)));
        /* The scale of a value that is not seen may be anything. */
        const int32_t from = visible[m].from;
        memcpy(weighted + from, share[m] + from, sizeof(float) * (size_t)(visible[m].to - from));
        fresh[m] *= to_words(weighted, DT_CHUNK, words[m]);
    }
    int32_t d = 0;
    for (; d + 16 * wide <= dim; d += 16 * wide)
        next = mix8(values, next, dim, d, seen, words, rows, wide, kept, fresh, mixed);
    for (; d < dim; d += 16) next = mix8(values, next, dim, d, seen, words, rows, 1, kept, fresh, mixed);
}

/* Either, for any number of queries: one that the compiler knows keeps the sums in registers, where there are any. */
ALWAYS_INLINE void attend(const int type, dt_chunk chunk, const char *next, int32_t dim, const dt_query *query,
                          const dt_span *visible, int32_t all, float cap, float *peak, float *total,
                          float *const *mixed)
{
#define ATTEND(ROWS)                                                                                              \
    if (type == DT_KV_Q8)                                                                                         \
        attend_rows8(chunk, next, dim, query + from, visible + from, ROWS, cap, peak + from, total + from, mixed + from); \
    else attend_rows(chunk, next, dim, query + from, visible + from, ROWS, cap, peak + from, total + from, mixed + from);
#define ATTEND_CASE(ROWS) case ROWS: if (ROWS <= MOST_QUERIES) { ATTEND(ROWS) } break;
    for (int32_t from = 0, rows; from < all; from += rows) {
        rows = all - from > MOST_QUERIES ? (all - from + 1) / 2 : all - from;
        if (type == DT_KV_F16 && rows > 1 && !are_numbers(chunk.values, dim, visible + from, rows)) rows = 1;
#if DT_ISA
        switch (rows) {
            ATTEND_CASE(1) ATTEND_CASE(2) ATTEND_CASE(3) ATTEND_CASE(4)
            ATTEND_CASE(5) ATTEND_CASE(6) ATTEND_CASE(7) ATTEND_CASE(8)
        }
#else
        ATTEND(rows)
#endif
    }
}

static void attend_chunk(dt_chunk chunk, const void *next, int32_t dim, const dt_query *query,
                         const dt_span *visible, int32_t rows, float cap, float *peak, float *total,
                         float *const *mixed)
{
    attend(DT_KV_F16, chunk, next, dim, query, visible, rows, cap, peak, total, mixed);
}

static void attend_chunk8(dt_chunk chunk, const void *next, int32_t dim, const dt_query *query,
                          const dt_span *visible, int32_t rows, float cap, float *peak, float *total,
                          float *const *mixed)
{
    attend(DT_KV_Q8, chunk, next, dim, query, visible, rows, cap, peak, total, mixed);
}
