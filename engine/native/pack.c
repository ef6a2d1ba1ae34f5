/* Packed weights: from fp32 rows to the blocks that the products read, and back. */
#include "half.h"
#include "internal.h"

#include <math.h>
#include <string.h>

static uint16_t float_to_bfloat(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float bfloat_to_float(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

int64_t dt_block_row_bytes(int32_t format, int32_t cols)
{
    const int64_t blocks = dt_round_up(cols, DT_BLOCK) / DT_BLOCK;
    if (format == DT_Q4) return blocks * DT_Q4_BYTES;
    if (format == DT_Q8) return blocks * DT_Q8_BYTES;
    return blocks * DT_BLOCK * DT_LANES * 2;
}

int64_t dt_packed_bytes(int32_t format, int32_t rows, int32_t cols)
{
    if (format < 0 || format >= DT_FORMATS || rows < 1 || cols < 1) return DT_BAD_ARGUMENT;
    return dt_round_up(rows, DT_LANES) / DT_LANES * dt_block_row_bytes(format, cols);
}

/* Squared error of a block quantised with `scale`; q gets the integers in [low, high]. */
static float quantise(const float *x, float scale, int low, int high, int8_t *q)
{
    const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
    const float rounder = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    float off[DT_BLOCK], error = 0;
    int32_t whole[DT_BLOCK];
    for (int i = 0; i < DT_BLOCK; i++) {
        float scaled = x[i] * inverse;
        scaled = scaled < (float)low ? (float)low : scaled;
        scaled = scaled > (float)high ? (float)high : scaled;
        scaled = (scaled + rounder) - rounder;
        whole[i] = (int32_t)scaled;
        off[i] = (x[i] - scaled * scale) * (x[i] - scaled * scale);
    }
    for (int i = 0; i < DT_BLOCK; i++) q[i] = (int8_t)whole[i];
    for (int i = 0; i < DT_BLOCK; i++) error += off[i];
    return error;
}

/* The scale with the least squared error among candidates around the obvious one, as stored. */
static uint16_t best_scale(const float *x, int low, int high, int candidates, int8_t *q)
{
    float top = 0, extreme = 0;
    for (int i = 0; i < DT_BLOCK; i++)
        if (fabsf(x[i]) > top) top = fabsf(x[i]), extreme = x[i];
    if (top == 0) {
        memset(q, 0, DT_BLOCK);
        return 0;
    }
    /* The largest weight takes the end of the range that reaches further. */
    const float obvious = extreme / (float)low;
    uint16_t best = 0;
    float least = INFINITY;
    for (int c = -candidates; c <= candidates; c++) {
        const uint16_t half = dt_float_to_half(obvious * (1.0f + 0.02f * (float)c));
        const float error = quantise(x, dt_half_to_float(half), low, high, q);
        if (error < least) least = error, best = half;
    }
    quantise(x, dt_half_to_float(best), low, high, q);
    return best;
}

static void pack_block_q4(int8_t q[DT_LANES][DT_BLOCK], const uint16_t *scale, uint8_t *out)
{
    for (int group = 0; group < 4; group++)
        for (int r = 0; r < DT_LANES; r++)
            for (int c = 0; c < 4; c++) {
                const int low = q[r][group * 4 + c] + 8, high = q[r][(group + 4) * 4 + c] + 8;
                out[group * 64 + r * 4 + c] = (uint8_t)(low | high << 4);
            }
    memcpy(out + 256, scale, DT_LANES * 2);
}

static void pack_block_q8(int8_t q[DT_LANES][DT_BLOCK], const uint16_t *scale, uint8_t *out)
{
    for (int group = 0; group < 8; group++)
        for (int r = 0; r < DT_LANES; r++) memcpy(out + group * 64 + r * 4, q[r] + group * 4, 4);
    memcpy(out + 512, scale, DT_LANES * 2);
}

typedef struct {
    const float *source;
    uint8_t *out;
    int32_t format, first, count, rows, cols;
} pack_job;

static void pack_block_row(void *context, int32_t index)
{
    const pack_job *job = context;
    const int32_t block_row = job->first / DT_LANES + index, blocks = dt_round_up(job->cols, DT_BLOCK) / DT_BLOCK;
    uint8_t *out = job->out + block_row * dt_block_row_bytes(job->format, job->cols);
    for (int32_t b = 0; b < blocks; b++) {
        float x[DT_LANES][DT_BLOCK];
        for (int r = 0; r < DT_LANES; r++)
            for (int i = 0; i < DT_BLOCK; i++) {
                const int32_t row = index * DT_LANES + r, column = b * DT_BLOCK + i;
                const int inside = row < job->count && column < job->cols;
                x[r][i] = inside ? job->source[(int64_t)row * job->cols + column] : 0.0f;
            }
        if (job->format == DT_BF16 || job->format == DT_F16) {
            uint16_t *half = (uint16_t *)out + (int64_t)b * DT_BLOCK * DT_LANES;
            for (int i = 0; i < DT_BLOCK; i++)
                for (int r = 0; r < DT_LANES; r++)
                    half[i * DT_LANES + r] = job->format == DT_BF16 ? float_to_bfloat(x[r][i])
                                                                    : dt_float_to_half(x[r][i]);
            continue;
        }
        int8_t q[DT_LANES][DT_BLOCK];
        uint16_t scale[DT_LANES];
        const int four = job->format == DT_Q4;
        for (int r = 0; r < DT_LANES; r++)
            scale[r] = four ? best_scale(x[r], -8, 7, 8, q[r]) : best_scale(x[r], -127, 127, 0, q[r]);
        if (four)
            pack_block_q4(q, scale, out + (int64_t)b * DT_Q4_BYTES);
        else
            pack_block_q8(q, scale, out + (int64_t)b * DT_Q8_BYTES);
    }
}

int32_t dt_pack(dt_pool *pool, int32_t format, const float *source, int32_t first, int32_t count,
                int32_t rows, int32_t cols, uint8_t *out)
{
    if (dt_packed_bytes(format, rows, cols) < 0 || first % DT_LANES || first < 0 || count < 1 ||
        first + count > rows || (count % DT_LANES && first + count != rows))
        return DT_BAD_ARGUMENT;
    pack_job job = {source, out, format, first, count, rows, cols};
    dt_run(pool, pack_block_row, &job, dt_round_up(count, DT_LANES) / DT_LANES);
    return DT_OK;
}

void dt_unpack_row(const dt_matrix *matrix, int32_t row, float *out)
{
    const int32_t r = row % DT_LANES;
    const uint8_t *data =
        matrix->data + row / DT_LANES * dt_block_row_bytes(matrix->format, matrix->cols);
    for (int32_t column = 0; column < matrix->cols; column++) {
        const int32_t b = column / DT_BLOCK, i = column % DT_BLOCK;
        if (matrix->format == DT_Q4) {
            const uint8_t *block = data + (int64_t)b * DT_Q4_BYTES;
            const uint8_t both = block[i / 4 % 4 * 64 + r * 4 + i % 4];
            uint16_t scale;
            memcpy(&scale, block + 256 + r * 2, 2);
            out[column] = (float)((i < 16 ? both & 15 : both >> 4) - 8) * dt_half_to_float(scale);
        } else if (matrix->format == DT_Q8) {
            const uint8_t *block = data + (int64_t)b * DT_Q8_BYTES;
            uint16_t scale;
            memcpy(&scale, block + 512 + r * 2, 2);
            out[column] = (float)(int8_t)block[i / 4 * 64 + r * 4 + i % 4] * dt_half_to_float(scale);
        } else {
            const uint16_t half = ((const uint16_t *)data)[(int64_t)column * DT_LANES + r];
            out[column] = matrix->format == DT_BF16 ? bfloat_to_float(half) : dt_half_to_float(half);
        }
    }
}
