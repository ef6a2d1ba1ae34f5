/* Packed weights: from rows to the blocks that the products read, and back. */
#include "half.h"
#include "pack_job.h"

#include <string.h>

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

static dt_packer *packer(void)
{
#if defined(__x86_64__)
    const int32_t isa = dt_current_isa();
    if (isa >= DT_AVX512) return dt_pack_avx512;
    if (isa == DT_AVX2) return dt_pack_avx2;
#endif
    return dt_pack_portable;
}

typedef struct {
    dt_packer *pack;
    dt_pack_job *job;
} pack_task;

static void pack_block_row(void *context, int32_t index)
{
    const pack_task *task = context;
    task->pack(task->job, index);
}

int32_t dt_pack_rows(dt_pool *pool, int32_t format, int32_t type, const void *source, int32_t first,
                     int32_t count, int32_t rows, int32_t cols, uint8_t *out)
{
    if (dt_packed_bytes(format, rows, cols) < 0 || first % DT_LANES || first < 0 || count < 1 ||
        first + count > rows || (count % DT_LANES && first + count != rows) ||
        (type != DT_F32 && type != DT_F16 && type != DT_BF16))
        return DT_BAD_ARGUMENT;
    dt_pack_job job = {source, out, type, format, first, count, rows, cols, 0};
    pack_task task = {packer(), &job};
    dt_run(pool, pack_block_row, &task, dt_round_up(count, DT_LANES) / DT_LANES);
    return atomic_load(&job.damaged) ? DT_NOT_FINITE : DT_OK;
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
            out[column] = matrix->format == DT_BF16 ? dt_bfloat_to_float(half) : dt_half_to_float(half);
        }
    }
}
