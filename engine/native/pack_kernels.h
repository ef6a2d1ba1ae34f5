/* Quantising weights, written once and compiled once per instruction set.
 *
 * pack_*.c include this with DT_ISA and DT_PACKERS set. A lane is a row of weights: 16 rows are quantised side by
 * side, so that no operation crosses lanes and every instruction set gives the same bits.
 */
#include "pack_job.h"
#include "vector.h"

#define V_ROUND(v) v_sub(v_add(v, v_set1(12582912.0f)), v_set1(12582912.0f)) /* 1.5 * 2^23 */
#define V_CLAMP(v, low, high) v_min(v_max(v, v_set1(low)), v_set1(high))

typedef float lanes32[DT_BLOCK][DT_LANES];

/* ---- reading ------------------------------------------------------------------------------- */

static v16 load_source(const dt_pack_job *job, int64_t at)
{
    if (job->type == DT_F32) return v_load((const float *)job->source + at);
    const uint16_t *half = (const uint16_t *)job->source + at;
    return job->type == DT_BF16 ? v_load_bf16(half) : v_load_f16(half);
}

static float source_number(const dt_pack_job *job, int64_t at)
{
    if (job->type == DT_F32) return ((const float *)job->source)[at];
    const uint16_t half = ((const uint16_t *)job->source)[at];
    return job->type == DT_BF16 ? dt_bfloat_to_float(half) : dt_half_to_float(half);
}

/* Block b of a row of blocks, columns first and rows as lanes; zero outside of the matrix. */
static void load_block(const dt_pack_job *job, int32_t index, int32_t b, lanes32 x, v16 *poison)
{
    float row[DT_LANES][DT_BLOCK];
    const int32_t top = index * DT_LANES, left = b * DT_BLOCK;
    const int32_t rows = job->count - top < DT_LANES ? job->count - top : DT_LANES;
    const int32_t cols = job->cols - left < DT_BLOCK ? job->cols - left : DT_BLOCK;
    if (rows < DT_LANES || cols < DT_BLOCK) memset(row, 0, sizeof row);
    for (int32_t r = 0; r < rows; r++) {
        const int64_t at = (int64_t)(top + r) * job->cols + left;
        if (cols == DT_BLOCK) {
            v_store(row[r], load_source(job, at));
            v_store(row[r] + 16, load_source(job, at + 16));
        } else
            for (int32_t i = 0; i < cols; i++) row[r][i] = source_number(job, at + i);
        /* Zero times anything is zero, but not times infinity or NaN. */
        for (int32_t i = 0; i < DT_BLOCK; i += 16) *poison = v_add(v_mul(v_load(row[r] + i), v_zero()), *poison);
    }
    for (int32_t i = 0; i < DT_BLOCK; i++)
        for (int32_t r = 0; r < DT_LANES; r++) x[i][r] = row[r][i];
}

/* ---- quantising ---------------------------------------------------------------------------- */

/* 1 / scale, or 0 where that would be no use. */
static v16 inverse(v16 scale)
{
    float lane[DT_LANES];
    v_store(lane, scale);
    for (int l = 0; l < DT_LANES; l++) lane[l] = fabsf(lane[l]) < 1e-8f ? 0.0f : 1.0f / lane[l];
    return v_load(lane);
}

/* The scale as it is stored, in fp16 and never infinite. */
static v16 store_scale(v16 scale, uint8_t *out)
{
    uint16_t half[DT_LANES];
    v_store_f16(half, V_CLAMP(scale, -65504.0f, 65504.0f));
    memcpy(out, half, sizeof half);
    return v_load_f16(half);
}

/* The scale in units of `obvious` with the least squared error; t = x / obvious.
 *
 * Of several candidates each gives integers q, and for given q the best scale is
 * sum(q t) / sum(q q), which takes sum(q t)^2 / sum(q q) off the squared error. */
static v16 best_scale(lanes32 t)
{
    static const float finer[] = {1 / 1.16f, 1 / 1.12f, 1 / 1.08f, 1 / 1.04f, 1.0f,
                                  1 / 0.96f, 1 / 0.92f, 1 / 0.88f, 1 / 0.84f};
    float best[DT_LANES] = {0}, chosen[DT_LANES] = {0};
    for (size_t c = 0; c < sizeof finer / sizeof *finer; c++) {
        const v16 step = v_set1(finer[c]);
        v16 mixed = v_zero(), squares = v_zero();
        for (int i = 0; i < DT_BLOCK; i++) {
            const v16 weight = v_load(t[i]), scaled = v_mul(weight, step);
            const v16 q = V_ROUND(V_CLAMP(scaled, -8.0f, 7.0f));
            mixed = v_add(v_mul(q, weight), mixed);
            squares = v_add(v_mul(q, q), squares);
        }
        float ratio[DT_LANES], gain[DT_LANES];
        v_store(ratio, v_div(mixed, v_max(squares, v_set1(1.0f)))); /* 0 / 0 is no scale */
        v_store(gain, mixed);
        for (int l = 0; l < DT_LANES; l++) {
            const float gained = ratio[l] * gain[l];
            const int better = gained > best[l];
            best[l] = better ? gained : best[l];
            chosen[l] = better ? ratio[l] : chosen[l];
        }
    }
    return v_load(chosen);
}

/* The scale that takes the largest weight to the end of the range that reaches further, -8. */
static v16 obvious_q4(lanes32 x)
{
    v16 high = v_load(x[0]), low = high;
    for (int i = 1; i < DT_BLOCK; i++) high = v_max(high, v_load(x[i])), low = v_min(low, v_load(x[i]));
    float most[DT_LANES], least[DT_LANES];
    v_store(most, high);
    v_store(least, low);
    for (int l = 0; l < DT_LANES; l++) most[l] = (most[l] > -least[l] ? most[l] : least[l]) / -8.0f;
    return v_load(most);
}

static void pack_q4(lanes32 x, uint8_t *out)
{
    lanes32 t;
    const v16 obvious = obvious_q4(x), unit = inverse(obvious);
    for (int i = 0; i < DT_BLOCK; i++) v_store(t[i], v_mul(v_load(x[i]), unit));
    const v16 finer = inverse(store_scale(v_mul(best_scale(t), obvious), out + 256));
    int32_t q[DT_BLOCK][DT_LANES];
    for (int i = 0; i < DT_BLOCK; i++) {
        const v16 whole = V_CLAMP(v_mul(v_load(x[i]), finer), -8.0f, 7.0f);
        vi_store(q[i], vi_add(v_round_int(whole), vi_set1(8)));
    }
    for (int group = 0; group < 4; group++) {
        uint32_t word[DT_LANES] = {0};
        for (int c = 0; c < 4; c++)
            for (int l = 0; l < DT_LANES; l++)
                word[l] |= (uint32_t)(q[group * 4 + c][l] | q[group * 4 + c + 16][l] << 4) << 8 * c;
        memcpy(out + group * 64, word, 64);
    }
}

static void pack_q8(lanes32 x, uint8_t *out)
{
    v16 top = v_zero();
    for (int i = 0; i < DT_BLOCK; i++) top = v_max(top, v_abs(v_load(x[i])));
    const v16 finer = inverse(store_scale(v_div(top, v_set1(127.0f)), out + 512));
    for (int group = 0; group < 8; group++) {
        uint32_t word[DT_LANES] = {0};
        for (int c = 0; c < 4; c++) {
            int32_t q[DT_LANES];
            const v16 whole = v_mul(v_load(x[group * 4 + c]), finer);
            vi_store(q, v_round_int(V_CLAMP(whole, -127.0f, 127.0f)));
            for (int l = 0; l < DT_LANES; l++) word[l] |= (uint32_t)(q[l] & 255) << 8 * c;
        }
        memcpy(out + group * 64, word, 64);
    }
}

static void pack_floats(lanes32 x, int32_t format, uint8_t *floats)
{
    if (format == DT_F32) {
        memcpy(floats, x, sizeof(lanes32));
        return;
    }
    uint16_t *out = (uint16_t *)floats;
    for (int i = 0; i < DT_BLOCK; i++, out += DT_LANES)
        if (format == DT_F16)
            v_store_f16(out, v_load(x[i]));
        else
            for (int l = 0; l < DT_LANES; l++) out[l] = dt_float_to_bfloat(x[i][l]);
}

static void pack(dt_pack_job *job, int32_t index)
{
    const int64_t bytes = dt_block_row_bytes(job->format, job->cols);
    const int32_t blocks = dt_round_up(job->cols, DT_BLOCK) / DT_BLOCK;
    uint8_t *out = job->out + (job->first / DT_LANES + index) * bytes;
    v16 poison = v_zero();
    for (int32_t b = 0; b < blocks; b++, out += bytes / blocks) {
        lanes32 x;
        load_block(job, index, b, x, &poison);
        if (job->format == DT_Q4)
            pack_q4(x, out);
        else if (job->format == DT_Q8)
            pack_q8(x, out);
        else
            pack_floats(x, job->format, out);
    }
    if (v_sum(poison) != 0) atomic_store(&job->damaged, 1);
}
