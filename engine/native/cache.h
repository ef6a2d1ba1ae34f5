#ifndef DUOTAIL_CACHE_H
#define DUOTAIL_CACHE_H

#include "delta.h"

/* Where a block that attends finds keys and values, in 16 bits: `place` within DT_CHUNK slots of all blocks. */
typedef struct {
    int32_t heads, dim;               /* dim is padded to DT_LANES */
    int32_t key_halves, value_halves; /* that a slot takes of a head */
    int32_t own;                      /* they are of this block itself */
    int64_t place;
} dt_kept;

struct dt_cache {
    int32_t blocks, type; /* DT_KV_... */
    dt_kept *kept;        /* [blocks]; of those with a state, nothing */
    int64_t chunk_halves; /* that DT_CHUNK slots take in all blocks */
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

static inline dt_chunk dt_chunk_of(const dt_cache *cache, const dt_kept *kept, int32_t head, int32_t chunk)
{
    const int64_t of_head = (int64_t)head * DT_CHUNK * (kept->key_halves + kept->value_halves);
    uint16_t *keys = cache->data + chunk * cache->chunk_halves + kept->place + of_head;
    return (dt_chunk){keys, keys + DT_CHUNK * kept->key_halves};
}

/* Copies one slot of a chunk to a slot of another. */
void dt_copy_slot(int32_t type, const dt_kept *kept, dt_chunk from, int32_t slot, dt_chunk to, int32_t target);

#endif
