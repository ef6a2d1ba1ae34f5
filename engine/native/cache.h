#ifndef DUOTAIL_CACHE_H
#define DUOTAIL_CACHE_H

#include "internal.h"

struct dt_cache {
    int32_t blocks, kv_heads, dim; /* dim is padded to DT_LANES */
    int32_t extent; /* slots from 0 on that were written by now */
    size_t bytes;
    uint16_t *data;
};

static inline void dt_extend(dt_cache *cache, int32_t slots)
{
    if (slots > cache->extent) cache->extent = slots;
}

/* Keys [dim][64] of one chunk. */
static inline uint16_t *dt_keys(const dt_cache *cache, int32_t block, int32_t head, int32_t chunk)
{
    const int64_t place = ((int64_t)chunk * cache->blocks + block) * cache->kv_heads + head;
    return cache->data + place * 2 * DT_CHUNK * cache->dim;
}

/* Values [64][dim] of one chunk. */
static inline uint16_t *dt_values(const dt_cache *cache, int32_t block, int32_t head, int32_t chunk)
{
    return dt_keys(cache, block, head, chunk) + (int64_t)DT_CHUNK * cache->dim;
}

#endif
