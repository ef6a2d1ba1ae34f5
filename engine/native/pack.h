/* Packing weights into the blocks that the products read, and telling damage to them. */
#ifndef DUOTAIL_PACK_H
#define DUOTAIL_PACK_H

#include "duotail.h"

/* Some weights or scales are no numbers. */
enum { DT_NOT_FINITE = -16 };

/* Packs rows first..first+count-1 (first a multiple of DT_LANES) of a [rows, cols] matrix in DT_F32,
 * DT_F16 or DT_BF16 into one of those formats, DT_Q4 or DT_Q8, with the scales of the least squared
 * error. Returns DT_OK, or DT_NOT_FINITE where there is a NaN or infinity among the weights. */
DT_API int32_t dt_pack_rows(dt_pool *pool, int32_t format, int32_t type, const void *source,
                            int32_t first, int32_t count, int32_t rows, int32_t cols, uint8_t *out);

/* The same rows from ggml's blocks of a quantised format into ours, which hold the same bits.
 * DT_NOT_FINITE where a scale is a NaN or infinity. */
DT_API int32_t dt_repack_rows(dt_pool *pool, int32_t format, const uint8_t *source, int32_t first,
                              int32_t count, int32_t rows, int32_t cols, uint8_t *out);

/* Of bytes in memory, the same for every number of threads. */
DT_API uint64_t dt_checksum(dt_pool *pool, const uint8_t *data, int64_t bytes);

#endif
