/* Attention over one chunk of keys and values. Included by kernels.h. */

/* One chunk of 64 keys for `rows` queries that share a key/value head, merged into the running
 * (peak, total, mixed) of each query in chunk order.
 *
 * keys [dim][64] and values [64][dim] fp16; query [rows][dim], already scaled; visible[row] is at least
 * one key of the chunk; scores are softcapped unless cap is 0. */
ALWAYS_INLINE void attend_rows(
    const uint16_t *keys, const uint16_t *values, int32_t dim, const float *const *query,
    const dt_span *visible, const int32_t rows, float cap, float *peak, float *total, float *const *mixed)
{
    float share[MOST_ROWS][DT_CHUNK], kept[MOST_ROWS], fresh[MOST_ROWS];
    int32_t least = DT_CHUNK, most = 0;
    for (int32_t m = 0; m < rows; m++) {
        least = visible[m].from < least ? visible[m].from : least;
        most = visible[m].to > most ? visible[m].to : most;
    }
    for (int32_t k = least / 16 * 16; k < most; k += 16) {
        v16 acc[MOST_ROWS];
        for (int32_t m = 0; m < rows; m++) acc[m] = v_zero();
        for (int32_t d = 0; d < dim; d++) {
            v16 key = v_load_f16(keys + d * DT_CHUNK + k);
            for (int32_t m = 0; m < rows; m++) acc[m] = v_fma(v_set1(query[m][d]), key, acc[m]);
        }
        for (int32_t m = 0; m < rows; m++) v_store(share[m] + k, acc[m]);
    }
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
    for (int32_t d = 0; d < dim; d += 16) {
        v16 acc[MOST_ROWS];
        for (int32_t m = 0; m < rows; m++) acc[m] = v_zero();
        for (int32_t k = least; k < most; k++) {
            v16 value = v_load_f16(values + k * dim + d);
            for (int32_t m = 0; m < rows; m++) acc[m] = v_fma(v_set1(share[m][k]), value, acc[m]);
        }
        for (int32_t m = 0; m < rows; m++) {
            v16 old = v_mul(v_load(mixed[m] + d), v_set1(kept[m]));
            v_store(mixed[m] + d, v_add(old, v_mul(acc[m], v_set1(fresh[m]))));
        }
    }
}

static void attend_chunk(const uint16_t *keys, const uint16_t *values, int32_t dim,
                         const float *const *query, const dt_span *visible, int32_t rows, float cap,
                         float *peak, float *total, float *const *mixed)
{
#define ATTEND(ROWS)                                                                      \
    case ROWS:                                                                            \
        attend_rows(keys, values, dim, query, visible, ROWS, cap, peak, total, mixed);    \
        break;
    switch (rows) { FOR_ALL_ROWS(ATTEND) }
}
