/* Attention over one chunk of keys and values. Included by kernels.h. */

/* Where a sum is several registers, GCC has to be told that its loops go. */
#if DT_ISA == 3 || defined(DT_VNNI)
#define UNROLL_SUMS UNROLL_16
#else
#define UNROLL_SUMS
#endif

/* Sums side by side: each is a chain of additions, of which a few rows alone leave most of the time
 * waiting. What is added in which order does not depend on it. */
enum { SIDE_BY_SIDE = 4 };

/* Queries whose sums fit the registers; with more of them, keys and values are better read twice. */
enum { MOST_QUERIES = DT_ISA == 1 || DT_ISA == 3 ? 6 : 8 };

/* How many sixteens of a chunk or of a head `rows` queries look at together: a power of two. */
ALWAYS_INLINE int32_t wide_for(const int32_t rows)
{
    return !DT_ISA ? 1 : rows * 4 <= SIDE_BY_SIDE ? 4 : rows * 2 <= SIDE_BY_SIDE ? 2 : 1;
}

/* Every second step of the scores' sums, and of the values', takes two cache lines of the chunk and asks for
 * as many of the next chunk: left to itself, the processor waits for memory half of the time, and asked for
 * all of them by the scores alone, it waits there. */
ALWAYS_INLINE const char *fetch_lines(const char *next, int32_t step, const int32_t lines)
{
    if (step % 2) return next;
    for (int32_t i = 0; i < lines; i++) DT_PREFETCH(next + i * 64);
    return next + lines * 64;
}

/* Scores of 16 * wide keys from `keys` on, to share[..][k..]; returns where `next` has come to. */
ALWAYS_INLINE const char *score(const uint16_t *keys, const char *next, int32_t dim, const dt_query *query, const int32_t rows,
                         const int32_t wide, float (*share)[DT_CHUNK], int32_t k)
{
    v16 acc[MOST_QUERIES];
    UNROLL_SUMS
    for (int32_t i = 0; i < rows * wide; i++) acc[i] = v_zero();
    for (int32_t d = 0; d < dim; d++) {
        next = fetch_lines(next, d, wide);
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            const v16 key = v_load_f16(keys + d * DT_CHUNK + 16 * g);
            UNROLL_SUMS
            for (int32_t m = 0; m < rows; m++)
                acc[m * wide + g] = v_fma(v_set1(query[m].x[d]), key, acc[m * wide + g]);
        }
    }
    UNROLL_SUMS
    for (int32_t m = 0; m < rows; m++)
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) v_store(share[m] + k + 16 * g, acc[m * wide + g]);
    return next;
}

/* The keys that any of the rows sees. */
ALWAYS_INLINE dt_span seen_by_any(const dt_span *visible, const int32_t rows)
{
    dt_span seen = {DT_CHUNK, 0};
    for (int32_t m = 0; m < rows; m++) {
        seen.from = visible[m].from < seen.from ? visible[m].from : seen.from;
        seen.to = visible[m].to > seen.to ? visible[m].to : seen.to;
    }
    return seen;
}

/* Whether values that some of the rows see and others do not are numbers. The others weight them with zero, and
 * zero times infinity, or times what is no number, is no number: such rows go one by one, each along what it sees.
 * A row that does see an infinite value gets what the arithmetic makes of it, and its answer ends in words. */
static OUT_OF_LINE int32_t are_numbers(const uint16_t *values, int32_t dim, const dt_span *visible, int32_t rows)
{
    const dt_span any = seen_by_any(visible, rows);
    dt_span all = visible[0];
    for (int32_t m = 1; m < rows; m++) {
        all.from = visible[m].from > all.from ? visible[m].from : all.from;
        all.to = visible[m].to < all.to ? visible[m].to : all.to;
    }
    const dt_span parts[2] = {{any.from, all.from}, {all.to, any.to}};
    v16 nothing = v_zero();
    for (int32_t i = 0; i < 2; i++)
        for (int32_t at = parts[i].from * dim; at < parts[i].to * dim; at += 16)
            nothing = v_fma(v_load_f16(values + at), v_zero(), nothing);
    return v_sum(nothing) == 0;
}

/* From scores to the shares of a chunk's keys, 0 where one is not seen, merged into (peak, total); what
 * was mixed so far is to be multiplied with `kept`, what the chunk adds with `fresh`. */
static OUT_OF_LINE void weigh(float (*share)[DT_CHUNK], const dt_span *visible, int32_t rows, float cap,
                              float *peak, float *total, float *kept, float *fresh)
{
    for (int32_t m = 0; m < rows; m++) {
        float *mine = share[m];
        if (cap > 0) softcap(mine, DT_CHUNK, cap);
        for (int32_t k = 0; k < visible[m].from; k++) mine[k] = -INFINITY;
        for (int32_t k = visible[m].to; k < DT_CHUNK; k++) mine[k] = -INFINITY;
        const float top = v_top(v_max(v_max(v_load(mine), v_load(mine + 16)),
                                      v_max(v_load(mine + 32), v_load(mine + 48))));
        for (int32_t k = 0; k < DT_CHUNK; k += 16)
            v_store(mine + k, v_exp(v_sub(v_load(mine + k), v_set1(top))));
        for (int32_t k = 0; k < visible[m].from; k++) mine[k] = 0;
        for (int32_t k = visible[m].to; k < DT_CHUNK; k++) mine[k] = 0;
        const v16 sum = v_add(v_add(v_load(mine), v_load(mine + 16)),
                              v_add(v_load(mine + 32), v_load(mine + 48)));
        const float higher = top > peak[m] ? top : peak[m];
        float both[16] = {peak[m] - higher, top - higher};
        v_store(both, v_exp(v_load(both)));
        kept[m] = peak[m] == -INFINITY ? 0.0f : both[0];
        fresh[m] = both[1];
        total[m] = total[m] * kept[m] + v_sum(sum) * fresh[m];
        peak[m] = higher;
    }
}

/* Numbers [d, d + 16 * wide) of what the values that are seen make together; returns where `next` has come to. */
ALWAYS_INLINE const char *mix(const uint16_t *values, const char *next, int32_t dim, int32_t d, dt_span seen,
                              float (*share)[DT_CHUNK], const int32_t rows, const int32_t wide, const float *kept,
                              const float *fresh, float *const *mixed)
{
    v16 acc[MOST_QUERIES];
    UNROLL_SUMS
    for (int32_t i = 0; i < rows * wide; i++) acc[i] = v_zero();
    for (int32_t k = seen.from; k < seen.to; k++) {
        next = fetch_lines(next, k, wide);
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            const v16 value = v_load_f16(values + k * dim + d + 16 * g);
            UNROLL_SUMS
            for (int32_t m = 0; m < rows; m++)
                acc[m * wide + g] = v_fma(v_set1(share[m][k]), value, acc[m * wide + g]);
        }
    }
    UNROLL_SUMS
    for (int32_t m = 0; m < rows; m++)
        UNROLL_SUMS
        for (int32_t g = 0; g < wide; g++) {
            float *place = mixed[m] + d + 16 * g;
            const v16 old = v_mul(v_load(place), v_set1(kept[m]));
            v_store(place, v_add(old, v_mul(acc[m * wide + g], v_set1(fresh[m]))));
        }
    return next;
}

/* One chunk of 64 keys for `rows` queries that share a key/value head, merged into the running
 * (peak, total, mixed) of each query in chunk order.
 *
 * keys [dim][64] and values [64][dim] fp16; query [rows] of [dim]; visible[row] is at least
 * one key of the chunk; scores are softcapped unless cap is 0. */
ALWAYS_INLINE void attend_rows(
    dt_chunk chunk, const char *next, int32_t dim, const dt_query *query, const dt_span *visible,
    const int32_t rows, float cap, float *peak, float *total, float *const *mixed)
{
    const uint16_t *keys = chunk.keys, *values = chunk.values;
    const int32_t wide = wide_for(rows);
    float share[MOST_QUERIES][DT_CHUNK], kept[MOST_QUERIES], fresh[MOST_QUERIES];
    const dt_span seen = seen_by_any(visible, rows);
    for (int32_t k = seen.from / (16 * wide) * 16 * wide; k < seen.to; k += 16 * wide)
        next = score(keys + k, next, dim, query, rows, wide, share, k);
    weigh(share, visible, rows, cap, peak, total, kept, fresh);
    int32_t d = 0;
    for (; d + 16 * wide <= dim; d += 16 * wide)
        next = mix(values, next, dim, d, seen, share, rows, wide, kept, fresh, mixed);
    for (; d < dim; d += 16) next = mix(values, next, dim, d, seen, share, rows, 1, kept, fresh, mixed);
}

