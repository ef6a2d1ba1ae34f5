/* Packed weights: from rows to the blocks that the products read, and back. */
#include "half.h"
#include "pack_job.h"

#include <string.h>

int64_t dt_block_row_bytes(int32_t format, int32_t cols)
{
    const int64_t blocks = dt_round_up(cols, DT_BLOCK) / DT_BLOCK;
    if (dt_is_quantised(format))
        return blocks * DT_BLOCK / dt_block_cols(format) * dt_block_bytes(format);
    return blocks * DT_BLOCK * DT_LANES * (format == DT_F32 ? 4 : 2);
}

int64_t dt_packed_bytes(int32_t format, int32_t rows, int32_t cols)
{
    if (format < 0 || format >= DT_FORMATS || rows < 1 || cols < 1) return DT_BAD_ARGUMENT;
    if (dt_block_cols(format) > DT_BLOCK && cols % dt_block_cols(format)) return DT_BAD_ARGUMENT;
    return dt_round_up(rows, DT_LANES) / DT_LANES * dt_block_row_bytes(format, cols);
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

static int32_t pack_all(dt_pool *pool, dt_packer *pack, dt_pack_job *job)
{
    if (dt_packed_bytes(job->format, job->rows, job->cols) < 0 || job->first % DT_LANES ||
        job->first < 0 || job->count < 1 || job->first + job->count > job->rows ||
        (job->count % DT_LANES && job->first + job->count != job->rows))
        return DT_BAD_ARGUMENT;
    pack_task task = {pack, job};
    dt_run(pool, pack_block_row, &task, dt_round_up(job->count, DT_LANES) / DT_LANES);
    return atomic_load(&job->damaged) ? DT_NOT_FINITE : DT_OK;
}

int32_t dt_pack_rows(dt_pool *pool, int32_t format, int32_t type, const void *source, int32_t first,
                     int32_t count, int32_t rows, int32_t cols, uint8_t *out)
{
    const int known = type == DT_F32 || type == DT_F16 || type == DT_BF16;
    if (!known || (dt_is_quantised(format) && format != DT_Q4 && format != DT_Q8)) return DT_BAD_ARGUMENT;
    dt_pack_job job = {source, out, type, format, first, count, rows, cols, 0};
    return pack_all(pool, dt_active()->pack->pack, &job);
}

int32_t dt_repack_rows(dt_pool *pool, int32_t format, const uint8_t *source, int32_t first,
                       int32_t count, int32_t rows, int32_t cols, uint8_t *out)
{
    if (format < 0 || format >= DT_FORMATS || !dt_is_quantised(format) || cols % dt_block_cols(format))
        return DT_BAD_ARGUMENT;
    dt_pack_job job = {source, out, format, format, first, count, rows, cols, 0};
    return pack_all(pool, dt_active()->pack->repack, &job);
}

/* ---- back ---------------------------------------------------------------------------------- */

/* The code of a block's row r and column i of 32; p at the codes of those. */
static int code_at(int32_t format, const uint8_t *p, int32_t r, int32_t i)
{
    const int bits = dt_formats[format].bits, group = i / 4, at = r * 4 + i % 4;
    int code = 0, low = 0;
    if (bits == 8) return (int8_t)p[group * 64 + at];
    if (bits & 4) code = p[group % 4 * 64 + at] >> group / 4 * 4 & 15, p += 256, low = 4;
    if (bits & 2) code |= (p[group / 4 * 64 + at] >> group % 4 * 2 & 3) << low, p += 128, low += 2;
    if (bits & 1) code |= (p[at] >> group & 1) << low;
    return code;
}

static float half_at(const uint8_t *p, int32_t r)
{
    uint16_t half;
    memcpy(&half, p + r * 2, 2);
    return dt_half_to_float(half);
}

/* The scale and the offset of row r and the j-th 16 columns; p at the block's scales, s opened ones. */
static float scale_at(int32_t format, const uint8_t *p, const uint8_t *s, int32_t r, int32_t j, float *offset)
{
    const int scales = dt_formats[format].scales;
    const uint8_t of_16 = s[j * 16 + r], of_32 = s[j / 2 * 16 + r];
    *offset = 0;
    if (scales == EXPONENT) return ldexpf(1, p[r] - 128);
    const float d = half_at(p, r);
    if (scales == SCALE_MIN) *offset = half_at(p + 32, r);
    if (scales == SIX_MIN) *offset = -(half_at(p + 32, r) * s[(8 + j / 2) * 16 + r]);
    if (scales == NIBBLES_OF_16) *offset = -(half_at(p + 32, r) * (of_16 >> 4));
    return scales == SIX_MIN         ? d * of_32
           : scales == SIX_OF_32     ? d * (of_32 - 32)
           : scales == SIX_OF_16     ? d * (of_16 - 32)
           : scales == BYTE_OF_16    ? d * (int8_t)of_16
           : scales == NIBBLES_OF_16 ? d * (of_16 & 15)
                                     : d;
}

static void unpack_quantised(int32_t format, const uint8_t *data, int32_t r, int32_t cols, float *out)
{
    const dt_format f = dt_formats[format];
    const int32_t block_cols = dt_block_cols(format), codes = dt_code_bytes(format);
    uint8_t s[256] = {0};
    for (int32_t left = 0; left < cols; left += block_cols, data += dt_block_bytes(format)) {
        const uint8_t *scales = data + block_cols / DT_BLOCK * codes;
        dt_open_scales(format, scales, s);
        for (int32_t j = 0; j < block_cols / 16; j++) {
            float offset;
            const float scale = scale_at(format, scales, s, r, j, &offset);
            for (int32_t i = 0; i < 16 && left + j * 16 + i < cols; i++) {
                const int code = code_at(format, data + j / 2 * codes, r, j % 2 * 16 + i);
                const float q = (float)(f.table ? dt_tables[f.table][code] : code - f.bias);
                out[left + j * 16 + i] = dt_has_offset(format) ? scale * q + offset : scale * q;
            }
        }
    }
}

void dt_unpack_row(const dt_matrix *matrix, int32_t row, float *out)
{
    const int32_t r = row % DT_LANES, format = matrix->format;
    const uint8_t *data = matrix->data + row / DT_LANES * dt_block_row_bytes(format, matrix->cols);
    if (dt_is_quantised(format)) unpack_quantised(format, data, r, matrix->cols, out);
    else
        for (int32_t column = 0; column < matrix->cols; column++) {
            const int64_t at = (int64_t)column * DT_LANES + r;
            const uint16_t half = format == DT_F32 ? 0 : ((const uint16_t *)data)[at];
            out[column] = format == DT_F32    ? ((const float *)data)[at]
                          : format == DT_BF16 ? dt_bfloat_to_float(half)
                                              : dt_half_to_float(half);
        }
}
