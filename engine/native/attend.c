/* Attention of a forward: keys and values to their places, and every row over its own path. */
#include "forward.h"

#include <math.h>
#include <string.h>

enum {
    QUERIES = 8, /* that attend together */
    BATCHES = 8, /* of them, to the same chunks */
    TOGETHER = QUERIES * BATCHES,
};

/* How a block turns the heads of a row at one position. */
typedef struct {
    const float *cosine, *sine;
    int32_t rotated; /* numbers of a head */
} rotation;

static rotation at_position(const forward *f, int32_t position)
{
    const int32_t index = f->block->rope;
    if (index < 0) return (rotation){NULL, NULL, 0};
    const dt_rope *rope = &f->segment->rope[index];
    const int64_t place = (int64_t)position * (rope->dim / 2);
    return (rotation){rope->cosine + place, rope->sine + place, rope->dim};
}

/* One head of queries or keys: normed if there is a norm, rotated and scaled. y is padded with zeros. */
static void turn(const forward *f, const float *x, const float *norm, rotation at, float scale, float *y)
{
    const int32_t dim = f->block->head_dim, half = at.rotated / 2;
    for (int32_t i = dim; i < f->dim; i++) y[i] = 0; /* there may be what a block with other heads has left */
    if (norm) {
        memcpy(y, x, sizeof(float) * (size_t)dim);
        f->kernels->rms_norm(y, norm, dim, f->dim, f->segment->norm_eps, y);
        x = y;
    }
    for (int32_t i = 0; i < half; i++) {
        const float a = x[i], b = x[i + half];
        y[i] = (a * at.cosine[i] - b * at.sine[i]) * scale;
        y[i + half] = (b * at.cosine[i] + a * at.sine[i]) * scale;
    }
    for (int32_t i = at.rotated; i < dim; i++) y[i] = x[i] * scale;
}

static void put_key(const forward *f, const float *key, uint16_t *keys, int32_t slot)
{
    uint16_t half[MOST_DIM];
    int8_t bytes[MOST_DIM];
    if (f->cache->type == DT_KV_F16) {
        f->kernels->to_half(key, f->dim, half);
        for (int32_t d = 0; d < f->dim; d++) keys[d * DT_CHUNK + slot] = half[d];
        return;
    }
    uint16_t *scales = keys + DT_CHUNK / 2 * f->dim + slot;
    for (int32_t d = 0; d < f->dim; d += DT_BLOCK, scales += DT_CHUNK)
        *scales = f->kernels->to_bytes(key + d, f->dim - d < DT_BLOCK ? f->dim - d : DT_BLOCK, bytes + d);
    for (int32_t d = 0; d < f->dim; d += 2) memcpy(keys + d / 2 * DT_CHUNK + slot, bytes + d, 2);
}

static void put_value(const forward *f, const float *value, uint16_t *values, int32_t slot)
{
    int8_t bytes[MOST_DIM], *place = (int8_t *)values + slot / 2 * 2 * f->dim + slot % 2;
    if (f->cache->type == DT_KV_F16) {
        f->kernels->to_half(value, f->dim, values + slot * f->dim);
        return;
    }
    values[DT_CHUNK / 2 * f->dim + slot] = f->kernels->to_bytes(value, f->dim, bytes);
    for (int32_t d = 0; d < f->dim; d++) place[2 * d] = bytes[d];
}

/* Turns queries and keys of a row and stores its keys and values. */
static void place_row(void *context, int32_t row)
{
    forward *f = context;
    const dt_block *block = f->block;
    const int32_t dim = block->head_dim, padded = f->dim;
    const int32_t *slots = f->step->slots;
    const int32_t slot = slots ? slots[f->start + row] : f->step->first_slot + f->start + row;
    const rotation at = at_position(f, f->step->positions[f->start + row]);
    const float *in = f->qkv + (int64_t)row * f->qkv_cols;
    for (int32_t h = 0; h < block->heads; h++, in += block->gated ? 2 * dim : dim) {
        const int64_t index = (int64_t)row * block->heads + h;
        float *query = f->query + index * padded;
        turn(f, in, block->query_norm, at, block->attention_scale, query);
        if (f->cache->type == DT_KV_Q8)
            f->scales[index] = f->kernels->to_words(query, padded, f->words + index * padded);
    }
    float turned[MOST_DIM] = {0};
    for (int32_t h = 0; f->kept->own && h < block->kv_heads; h++, in += dim) {
        turn(f, in, block->key_norm, at, 1.0f, turned);
        put_key(f, turned, dt_chunk_of(f->cache, f->kept, h, slot / DT_CHUNK).keys, slot % DT_CHUNK);
    }
    for (int32_t h = 0; f->kept->own && h < block->kv_heads; h++, in += dim) {
        memcpy(turned, in, sizeof(float) * (size_t)dim);
        put_value(f, turned, dt_chunk_of(f->cache, f->kept, h, slot / DT_CHUNK).values, slot % DT_CHUNK);
    }
}

/* The keys and values of one chunk of a tree path, by position: those that are looked at, which are read
 * 16 at a time. */
static void gather(const forward *f, int32_t head, const int32_t *slots, dt_span looked_at, dt_chunk chunk)
{
    const int32_t end = dt_round_up(looked_at.to, DT_LANES);
    for (int32_t k = looked_at.from / DT_LANES * DT_LANES; k < end; k++)
        dt_copy_slot(f->cache->type, f->kept, dt_chunk_of(f->cache, f->kept, head, slots[k] / DT_CHUNK),
                     slots[k] % DT_CHUNK, chunk, k);
}

/* One batch of queries that share a key/value head, those of a path side by side; visible: positions. */
typedef struct {
    int32_t path[QUERIES];
    dt_query query[QUERIES];
    float *mixed[QUERIES];
    dt_span visible[QUERIES];
    int32_t count;
    float peak[QUERIES], total[QUERIES];
} batch;

/* What the queries [from, to) see of a chunk. */
static dt_span seen_by(const batch *b, int32_t from, int32_t to, int32_t chunk)
{
    const int32_t begin = chunk * DT_CHUNK;
    dt_span all = {DT_CHUNK, 0};
    for (int32_t m = from; m < to; m++) {
        const int32_t first = b->visible[m].from - begin, end = b->visible[m].to - begin;
        all.from = first < all.from ? first : all.from;
        all.to = end > all.to ? end : all.to;
    }
    return (dt_span){all.from > 0 ? all.from : 0, all.to < DT_CHUNK ? all.to : DT_CHUNK};
}

static void attend_batch_chunk(const forward *f, batch *b, int32_t from, int32_t to, int32_t chunk,
                               dt_chunk held)
{
    dt_query query[QUERIES];
    float *mixed[QUERIES], peak[QUERIES], total[QUERIES];
    dt_span visible[QUERIES];
    int32_t who[QUERIES], rows = 0;
    const int32_t begin = chunk * DT_CHUNK;
    for (int32_t m = from; m < to; m++) {
        const dt_span all = b->visible[m];
        if (all.to <= begin || all.from >= begin + DT_CHUNK) continue;
        visible[rows].from = all.from > begin ? all.from - begin : 0;
        visible[rows].to = all.to - begin < DT_CHUNK ? all.to - begin : DT_CHUNK;
        query[rows] = b->query[m], mixed[rows] = b->mixed[m];
        peak[rows] = b->peak[m], total[rows] = b->total[m];
        who[rows++] = m;
    }
    if (!rows) return;
    /* Behind the last chunk there may be nothing, which asking for does not mind. */
    const void *next = (const void *)((uintptr_t)held.keys + sizeof(uint16_t) * (size_t)f->cache->chunk_halves);
    f->kernels->attend_chunk[f->cache->type](held, next, f->dim, query, visible, rows,
                                             f->segment->attention_softcap, peak, total, mixed);
    for (int32_t m = 0; m < rows; m++) b->peak[who[m]] = peak[m], b->total[who[m]] = total[m];
}

/* Whether a chunk of a path is a chunk of the cache, as those of sequences side by side are. */
static int lies_whole(const int32_t *slots, dt_span looked_at)
{
    const int32_t first = slots[looked_at.from] - looked_at.from;
    for (int32_t k = looked_at.from + 1; k < looked_at.to; k++)
        if (slots[k] != first + k) return 0;
    return first >= 0 && first % DT_CHUNK == 0;
}

/* A chunk that paths have of their own. */
static void attend_paths(const forward *f, batch *b, int32_t head, int32_t chunk)
{
    const dt_step *step = f->step;
    const int32_t behind = chunk * DT_CHUNK - step->path_base;
    uint16_t keys[DT_CHUNK * MOST_DIM], values[DT_CHUNK * MOST_DIM];
    const dt_chunk gathered = {keys, values};
    for (int32_t from = 0, to; from < b->count; from = to) {
        for (to = from + 1; to < b->count && b->path[to] == b->path[from];) to++;
        const dt_span seen = seen_by(b, from, to, chunk);
        if (seen.from >= seen.to) continue;
        const int32_t *slots = step->path_slots + (int64_t)b->path[from] * step->path_width + behind;
        if (lies_whole(slots, seen)) {
            const int32_t whole = slots[seen.from] / DT_CHUNK;
            attend_batch_chunk(f, b, from, to, chunk, dt_chunk_of(f->cache, f->kept, head, whole));
            continue;
        }
        gather(f, head, slots, seen, gathered);
        attend_batch_chunk(f, b, from, to, chunk, gathered);
    }
}

static void attend_batch(const forward *f, batch *b, int32_t head, int32_t chunk)
{
    if (f->step->paths && chunk * DT_CHUNK >= f->step->path_base) attend_paths(f, b, head, chunk);
    else attend_batch_chunk(f, b, 0, b->count, chunk, dt_chunk_of(f->cache, f->kept, head, chunk));
}

/* A query of a group: its row, and its head. */
typedef struct { int32_t row, head; } asker;

static asker asker_of(const forward *f, const group *rows, int32_t head, int32_t index)
{
    const int32_t per_kv = f->block->heads / f->block->kv_heads;
    return (asker){f->order[rows->first + index / per_kv], head * per_kv + index % per_kv};
}

/* Fills a batch with the queries from `first` on; returns what they see. */
static dt_span begin_batch(const forward *f, batch *b, const group *rows, int32_t head, int32_t first)
{
    const dt_block *block = f->block;
    dt_span all = {INT32_MAX, 0};
    for (int32_t m = 0; m < b->count; m++) {
        const asker by = asker_of(f, rows, head, first + m);
        const int32_t seen = f->step->positions[f->start + by.row] + 1, window = block->window;
        const int64_t index = (int64_t)by.row * block->heads + by.head, place = index * f->dim;
        b->path[m] = f->step->paths ? f->step->row_path[f->start + by.row] : 0;
        b->query[m] = (dt_query){f->query + place, f->words + place, f->scales[index]};
        b->mixed[m] = memset(f->attended + place, 0, sizeof(float) * (size_t)f->dim);
        b->visible[m] = (dt_span){window && window < seen ? seen - window : 0, seen};
        b->peak[m] = block->sinks ? block->sinks[by.head] : -INFINITY;
        b->total[m] = block->sinks ? 1.0f : 0.0f;
        all.from = b->visible[m].from < all.from ? b->visible[m].from : all.from;
        all.to = b->visible[m].to > all.to ? b->visible[m].to : all.to;
    }
    return all;
}

/* out * sigmoid(gate), where a head has a gate behind its query. */
static void gate_head(const forward *f, asker by, float *out)
{
    const int32_t dim = f->block->head_dim;
    const float *gate = f->qkv + (int64_t)by.row * f->qkv_cols + (2 * by.head + 1) * dim;
    float nothing[MOST_DIM] = {0};
    f->kernels->blend(gate, out, nothing, dim, out);
}

/* Queries [from, to) of a group: chunk after chunk, at which all of them look while it is near. */
static void attend_queries(const forward *f, const group *rows, int32_t head, int32_t from, int32_t to)
{
    const int32_t dim = f->block->head_dim;
    batch batches[BATCHES];
    dt_span all = {INT32_MAX, 0};
    int32_t count = 0;
    for (int32_t first = from; first < to; first += QUERIES, count++) {
        batches[count].count = to - first < QUERIES ? to - first : QUERIES;
        const dt_span seen = begin_batch(f, &batches[count], rows, head, first);
        all.from = seen.from < all.from ? seen.from : all.from;
        all.to = seen.to > all.to ? seen.to : all.to;
    }
    for (int32_t chunk = all.from / DT_CHUNK; chunk * DT_CHUNK < all.to; chunk++)
        for (int32_t i = 0; i < count; i++) attend_batch(f, &batches[i], head, chunk);
    for (int32_t i = 0; i < to - from; i++) {
        const asker by = asker_of(f, rows, head, from + i);
        const batch *b = &batches[i / QUERIES];
        float *out = f->mixed + (int64_t)by.row * f->mixed_cols + by.head * dim;
        for (int32_t d = 0; d < dim; d++)
            out[d] = b->mixed[i % QUERIES][d] / b->total[i % QUERIES];
        if (f->block->gated) gate_head(f, by, out);
    }
}

static void attend_group(void *context, int32_t index)
{
    const forward *f = context;
    const int32_t heads = f->block->kv_heads, head = index % heads;
    const group *rows = &f->groups[index / heads];
    const int32_t queries = rows->count * (f->block->heads / heads);
    for (int32_t from = 0; from < queries; from += TOGETHER) {
        const int32_t left = queries - from;
        attend_queries(f, rows, head, from, from + (left < TOGETHER ? left : TOGETHER));
    }
}

static int32_t common_divisor(int32_t a, int32_t b) { return b ? common_divisor(b, a % b) : a; }

/* Groups the slice's rows: as many together as leave the same work for every thread; those of a path are
 * neighbours. */
static void group_rows(forward *f)
{
    const int32_t heads = f->block->kv_heads, per_kv = f->block->heads / heads, threads = dt_threads(f->pool);
    const int32_t least = threads / common_divisor(threads, heads), share = (f->rows + least - 1) / least;
    const int32_t most = per_kv < TOGETHER ? TOGETHER / per_kv : 1, together = share < most ? share : most;
    const int32_t paths = f->step->paths ? f->step->paths : 1;
    int32_t placed = 0;
    f->group_count = 0;
    group *open = NULL;
    for (int32_t path = 0; path < paths; path++) {
        for (int32_t row = 0; row < f->rows; row++) {
            if (f->step->paths && f->step->row_path[f->start + row] != path) continue;
            if (!open || open->count == together) {
                open = &f->groups[f->group_count++];
                *open = (group){placed, 0};
            }
            f->order[placed++] = row;
            open->count++;
        }
    }
}

void dt_attend(forward *f)
{
    const dt_block *block = f->block;
    if (f->grouped[0] != block->heads || f->grouped[1] != block->kv_heads) group_rows(f);
    f->grouped[0] = block->heads, f->grouped[1] = block->kv_heads;
    dt_run(f->pool, place_row, f, f->rows);
    dt_run(f->pool, attend_group, f, f->group_count * block->kv_heads);
}
