/* Packing weights into the blocks that the products read, and telling damage to them. */
#ifndef DUOTAIL_PACK_H
#define DUOTAIL_PACK_H

#include "duotail.h"

/* What weights may be packed from, beside DT_BF16 and DT_F16; and what is said of others. */
enum { DT_F32 = DT_FORMATS, DT_NOT_FINITE = -16 };

/* Packs rows first..first+count-1 (first a multiple of DT_LANES) of a [rows, cols] matrix. The
 * scales of the quantised formats are those with the least squared error. Returns DT_OK, or
 * DT_NOT_FINITE where there is a NaN or infinity among the weights. */
DT_API int32_t dt_pack_rows(dt_pool *pool, int32_t format, int32_t type, const void *source,
                            int32_t first, int32_t count, int32_t rows, int32_t cols, uint8_t *out);

/* Of bytes in memory, the same for every number of threads. */
DT_API uint64_t dt_checksum(dt_pool *pool, const uint8_t *data, int64_t bytes);

#endif
