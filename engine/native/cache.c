/* Keys and values of one sequence, fp16, in chunks of 64 slots.
 *
 * They lie [chunk][block][kv head], keys [dim][64] and behind them values [64][dim]: a register holds
 * one dimension of 16 keys, so scores need no sums across lanes. A sequence touches memory from one
 * end as it grows, so large pages suit it, which are found sooner than hundreds of small ones.
 */
#include "cache.h"
#include "platform.h"

#include <stdlib.h>
#include <string.h>

enum { HUGE_PAGE = 2 << 20 };

/* A cache without its memory. */
static dt_cache describe(const dt_segment *segment)
{
    return (dt_cache){
        .blocks = segment->blocks,
        .kv_heads = segment->kv_heads,
        .dim = dt_round_up(segment->head_dim, DT_LANES),
    };
}

static size_t bytes_of(const dt_cache *cache, int32_t slots)
{
    const size_t heads = (size_t)cache->blocks * (size_t)cache->kv_heads;
    return heads * (size_t)cache->dim * (size_t)dt_round_up(slots, DT_CHUNK) * 2 * sizeof(uint16_t);
}

dt_cache *dt_cache_new(const dt_segment *segment, int32_t slots)
{
    dt_cache *cache = malloc(sizeof *cache);
    if (!cache || slots < 1) {
        free(cache);
        return NULL;
    }
    *cache = describe(segment);
    cache->bytes = bytes_of(cache, slots);
    if (!cache->bytes) return cache; /* no blocks: an embedding alone, or a head */
    cache->data = dt_pages_new(cache->bytes);
    if (cache->data) return cache;
    free(cache);
    return NULL;
}

void dt_cache_free(dt_cache *cache)
{
    if (!cache) return;
    if (cache->data) dt_pages_free(cache->data, cache->bytes);
    free(cache);
}

int64_t dt_cache_bytes(const dt_segment *segment, int32_t slots)
{
    const dt_cache cache = describe(segment);
    return (int64_t)bytes_of(&cache, slots);
}

int64_t dt_cache_touched(const dt_cache *cache)
{
    const size_t written = (bytes_of(cache, cache->extent) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    return (int64_t)(written < cache->bytes ? written : cache->bytes);
}

void dt_cache_copy(dt_cache *cache, const dt_cache *other, int32_t slots)
{
    if (!cache->data) return;
    memcpy(cache->data, other->data, bytes_of(cache, slots));
    dt_extend(cache, slots);
}

void dt_cache_move(dt_cache *cache, const int32_t *sources, int32_t count, int32_t target)
{
    const int32_t dim = cache->dim;
    dt_extend(cache, target + count);
    for (int32_t block = 0; block < cache->blocks; block++)
        for (int32_t head = 0; head < cache->kv_heads; head++)
            for (int32_t i = 0; i < count; i++) {
                const int32_t from = sources[i], to = target + i;
                const uint16_t *key = dt_keys(cache, block, head, from / DT_CHUNK) + from % DT_CHUNK;
                const uint16_t *value =
                    dt_values(cache, block, head, from / DT_CHUNK) + from % DT_CHUNK * dim;
                uint16_t *key_to = dt_keys(cache, block, head, to / DT_CHUNK) + to % DT_CHUNK;
                uint16_t *value_to =
                    dt_values(cache, block, head, to / DT_CHUNK) + to % DT_CHUNK * dim;
                for (int32_t d = 0; d < dim; d++) {
                    key_to[d * DT_CHUNK] = key[d * DT_CHUNK];
                    value_to[d] = value[d];
                }
            }
}
