/* Keys and values of one sequence in chunks of 64 slots.
 *
 * They lie [chunk][block][kv head], but those of blocks that look at another's. In fp16, keys [dim][64] and behind them values [64][dim]: a register
 * holds one dimension of 16 keys, so scores need no sums across lanes. In 8 bits, keys [dim / 2][64][2]
 * and their scales [blocks of a head][64], values [32][dim][2] and their scales [64]: a register holds
 * the pairs that one instruction multiplies and adds up. A sequence touches memory from one end as it
 * grows, so large pages suit it, which are found sooner than hundreds of small ones.
 */
#include "cache.h"
#include "platform.h"

#include <stdlib.h>
#include <string.h>

enum { HUGE_PAGE = 2 << 20 };

/* What a block keeps of a sequence, wherever that lies. */
static dt_kept kept_by(const dt_block *block, int32_t type)
{
    if (block->delta.key_heads) return (dt_kept){0};
    const int32_t dim = dt_round_up(block->head_dim, DT_LANES);
    const int integers = type == DT_KV_Q8;
    return (dt_kept){
        .heads = block->kv_heads,
        .dim = dim,
        .key_halves = integers ? dim / 2 + dt_round_up(dim, DT_BLOCK) / DT_BLOCK : dim,
        .value_halves = integers ? dim / 2 + 1 : dim,
        .own = !block->kv_from,
    };
}

/* A cache without its memory. */
static dt_cache describe(const dt_segment *segment)
{
    dt_cache cache = {.blocks = segment->blocks, .type = segment->kv_type};
    for (int32_t i = 0; i < segment->blocks; i++) {
        const dt_kept kept = kept_by(&segment->block[i], cache.type);
        if (kept.own) cache.chunk_halves += (int64_t)kept.heads * DT_CHUNK * (kept.key_halves + kept.value_halves);
        if (!segment->block[i].delta.key_heads) continue;
        cache.layers++, cache.state_bytes += (size_t)dt_delta_bytes(&segment->block[i].delta);
    }
    return cache;
}

static size_t bytes_of(const dt_cache *cache, int32_t slots)
{
    return (size_t)cache->chunk_halves * (size_t)(dt_round_up(slots, DT_CHUNK) / DT_CHUNK) * sizeof(uint16_t);
}

/* Where all blocks' keys and values lie; 0: there is no memory to say it. */
static int find_places(dt_cache *cache, const dt_segment *segment)
{
    cache->kept = calloc((size_t)cache->blocks + 1, sizeof *cache->kept);
    int64_t place = 0;
    for (int32_t i = 0; cache->kept && i < cache->blocks; i++) {
        dt_kept *kept = &cache->kept[i];
        *kept = kept_by(&segment->block[i], cache->type);
        kept->place = place;
        if (kept->own) place += (int64_t)kept->heads * DT_CHUNK * (kept->key_halves + kept->value_halves);
        else if (kept->heads) kept->place = kept[-segment->block[i].kv_from].place;
    }
    return cache->kept != NULL;
}

/* The memory of a described cache; 0 where there is none. Without blocks (an embedding alone, or a head) it has none. */
static int allocate(dt_cache *cache, const dt_segment *segment)
{
    if (!find_places(cache, segment)) return 0;
    if (cache->bytes && !(cache->data = dt_pages_new(cache->bytes))) return 0;
    if (!cache->layers) return 1;
    cache->layer = calloc((size_t)cache->layers, sizeof *cache->layer);
    cache->states = dt_pages_new(cache->state_bytes);
    if (!cache->layer || !cache->states) return 0;
    uint8_t *place = cache->states;
    for (int32_t i = 0, layer = 0; i < segment->blocks; i++) {
        const dt_delta *delta = &segment->block[i].delta;
        if (!delta->key_heads) continue;
        cache->layer[layer++] = dt_delta_begin(delta, place);
        place += dt_delta_bytes(delta);
    }
    return 1;
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
    if (allocate(cache, segment)) return cache;
    dt_cache_free(cache);
    return NULL;
}

void dt_cache_free(dt_cache *cache)
{
    if (!cache) return;
    if (cache->data) dt_pages_free(cache->data, cache->bytes);
    if (cache->states) dt_pages_free(cache->states, cache->state_bytes);
    free(cache->layer);
    free(cache->kept);
    free(cache);
}

int64_t dt_cache_bytes(const dt_segment *segment, int32_t slots)
{
    const dt_cache cache = describe(segment);
    return (int64_t)(bytes_of(&cache, slots) + cache.state_bytes);
}

int64_t dt_cache_touched(const dt_cache *cache)
{
    const size_t written = (bytes_of(cache, cache->extent) + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const size_t states = cache->extent ? cache->state_bytes : 0;
    return (int64_t)((written < cache->bytes ? written : cache->bytes) + states);
}

void dt_cache_copy(dt_cache *cache, const dt_cache *other, int32_t slots)
{
    if (cache->data) memcpy(cache->data, other->data, bytes_of(cache, slots));
    for (int32_t i = 0; i < cache->layers; i++) dt_delta_copy(&cache->layer[i], &other->layer[i]);
    dt_extend(cache, slots);
}

int32_t dt_cache_past(const dt_cache *cache)
{
    int32_t past = 0;
    for (int32_t i = 0; i < cache->layers; i++) past = cache->layer[i].past > past ? cache->layer[i].past : past;
    return past;
}

int64_t dt_snapshot_bytes(const dt_segment *segment)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < segment->blocks; i++)
        if (segment->block[i].delta.key_heads) bytes += dt_delta_snapshot_bytes(&segment->block[i].delta);
    return bytes;
}

void dt_restore(dt_cache *cache, int32_t committed, const uint8_t *from)
{
    for (int32_t i = 0; i < cache->layers; i++) {
        dt_delta_load(&cache->layer[i], committed, from);
        if (from) from += dt_delta_snapshot_bytes(&cache->layer[i].shape);
    }
}

void dt_copy_slot(int32_t type, const dt_kept *kept, dt_chunk from, int32_t slot, dt_chunk to, int32_t target)
{
    const int32_t dim = kept->dim;
    for (int32_t i = 0; i < kept->key_halves; i++)
        to.keys[i * DT_CHUNK + target] = from.keys[i * DT_CHUNK + slot];
    if (type == DT_KV_F16) {
        memcpy(to.values + target * dim, from.values + slot * dim, sizeof(uint16_t) * (size_t)dim);
        return;
    }
    const int8_t *bytes = (const int8_t *)from.values + slot / 2 * 2 * dim + slot % 2;
    int8_t *bytes_to = (int8_t *)to.values + target / 2 * 2 * dim + target % 2;
    for (int32_t d = 0; d < dim; d++) bytes_to[2 * d] = bytes[2 * d];
    to.values[DT_CHUNK / 2 * dim + target] = from.values[DT_CHUNK / 2 * dim + slot];
}

void dt_cache_move(dt_cache *cache, const int32_t *sources, int32_t count, int32_t target)
{
    dt_extend(cache, target + count);
    for (int32_t i = 0; i < cache->layers; i++) dt_delta_move(&cache->layer[i], sources, count, target);
    for (const dt_kept *kept = cache->kept; kept < cache->kept + cache->blocks; kept++)
        for (int32_t head = 0; kept->own && head < kept->heads; head++)
            for (int32_t i = 0; i < count; i++) {
                const int32_t from = sources[i], to = target + i;
                dt_copy_slot(cache->type, kept, dt_chunk_of(cache, kept, head, from / DT_CHUNK), from % DT_CHUNK,
                             dt_chunk_of(cache, kept, head, to / DT_CHUNK), to % DT_CHUNK);
            }
}
