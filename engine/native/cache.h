#ifndef DUOTAIL_CACHE_H
#define DUOTAIL_CACHE_H

#include "delta.h"

struct dt_cache {
    int32_t blocks, kv_heads, dim; /* blocks that attend; dim is padded to DT_LANES */
    int32_t type, key_halves, value_halves; /* DT_KV_...; 16 bits that a slot takes of a head */
    int32_t extent; /* slots from 0 on that were written by now */
    size_t bytes, state_bytes;
    uint16_t *data;
    int32_t layers; /* blocks with a state */
    dt_delta_state *layer;
    uint8_t *states;
};

static inline void dt_extend(dt_cache *cache, int32_t slots)
{
    if (slots > cache->extent) cache->extent = slots;
}

static inline dt_chunk dt_chunk_of(const dt_cache *cache, int32_t block, int32_t head, int32_t chunk)
{
    const int64_t place = ((int64_t)chunk * cache->blocks + block) * cache->kv_heads + head;
    uint16_t *keys = cache->data + place * DT_CHUNK * (cache->key_halves + cache->value_halves);
    return (dt_chunk){keys, keys + DT_CHUNK * cache->key_halves};
}

/* 16 bits from a chunk of a head to the next one. */
static inline int64_t dt_chunk_step(const dt_cache *cache)
{
    return (int64_t)cache->blocks * cache->kv_heads * DT_CHUNK * (cache->key_halves + cache->value_halves);
}

/* Copies one slot of a chunk to a slot of another. */
void dt_copy_slot(const dt_cache *cache, dt_chunk from, int32_t slot, dt_chunk to, int32_t target);

#endif
