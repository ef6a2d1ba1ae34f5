#ifndef DUOTAIL_CACHE_H
#define DUOTAIL_CACHE_H

#include "internal.h"

struct dt_cache {
    int32_t blocks, kv_heads, dim, chunks; /* dim is padded to DT_LANES */
    int64_t per_head;                      /* numbers of one head's keys (or values) in one block */
    size_t bytes;
    uint16_t *data;
};

/* Keys [dim][64] of one chunk. */
static inline uint16_t *dt_keys(const dt_cache *cache, int32_t block, int32_t head, int32_t chunk)
{
    const int64_t place = ((int64_t)block * cache->kv_heads + head) * 2;
    return cache->data + place * cache->per_head + (int64_t)chunk * DT_CHUNK * cache->dim;
}

/* Values [64][dim] of one chunk. */
static inline uint16_t *dt_values(const dt_cache *cache, int32_t block, int32_t head, int32_t chunk)
{
    return dt_keys(cache, block, head, chunk) + cache->per_head;
}

#endif
