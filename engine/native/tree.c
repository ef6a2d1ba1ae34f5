/* Forwards over trees: from the parents of staged nodes to positions and paths (engine/backend/step.py
 * says the same), and the verification of a tree. */
#include "tree.h"
#include "draw.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    int32_t committed, staged, count, deepest, chain;
    const int32_t *parents;
    int32_t *depth;    /* [count] */
    int32_t *row_path; /* [count] of which the rows' are looked at */
} nodes;

/* Returns 0 where a parent does not come before its node. */
static int measure(nodes *n)
{
    n->chain = 1;
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t parent = n->parents[i];
        if (parent < -1 || parent >= i) return 0;
        n->depth[i] = parent < 0 ? 0 : n->depth[parent] + 1;
        n->chain = n->chain && parent == i - 1;
        if (i >= n->staged && n->depth[i] > n->deepest) n->deepest = n->depth[i];
    }
    return 1;
}

/* Gives every row the first leaf, from the last row on, that lies on its path; returns how many. */
static int32_t find_leaves(nodes *n, int32_t *leaves)
{
    int32_t count = 0;
    for (int32_t i = 0; i < n->count; i++) n->row_path[i] = -1;
    for (int32_t leaf = n->count - 1; leaf >= n->staged; leaf--) {
        if (n->row_path[leaf] >= 0) continue;
        for (int32_t i = leaf; i >= n->staged && n->row_path[i] < 0; i = n->parents[i])
            n->row_path[i] = count;
        leaves[count++] = leaf;
    }
    return count;
}

/* The slots of each leaf's path by position, from the chunk of the last committed token on. */
static int32_t *lay_paths(const nodes *n, const int32_t *leaves, int32_t paths, dt_step *step)
{
    const int32_t base = n->committed / DT_CHUNK * DT_CHUNK, own = n->committed - base;
    const int32_t width = dt_round_up(own + n->deepest + 1, DT_CHUNK);
    int32_t *all = calloc((size_t)paths * (size_t)width, sizeof *all);
    for (int32_t path = 0; all && path < paths; path++) {
        int32_t *slots = all + (int64_t)path * width;
        for (int32_t i = 0; i < own; i++) slots[i] = base + i;
        for (int32_t i = leaves[path]; i >= 0; i = n->parents[i])
            slots[own + n->depth[i]] = n->committed + i;
    }
    step->paths = paths, step->path_base = base, step->path_width = width;
    step->path_slots = all, step->row_path = n->row_path + n->staged;
    return all;
}

int32_t dt_forward_tree(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                        const dt_step *rows, int32_t committed, int32_t staged,
                        const int32_t *parents)
{
    const int32_t count = staged + rows->rows;
    if (rows->rows < 1 || staged < 0 || committed < 0) return DT_BAD_ARGUMENT;
    int32_t *memory = malloc(sizeof *memory * ((size_t)count * 3 + (size_t)rows->rows));
    if (!memory) return DT_NO_MEMORY;
    nodes n = {committed, staged, count, 0, 1, parents, memory, memory + count};
    int32_t *leaves = memory + 2 * count, *positions = memory + 3 * count, *slots = NULL;
    dt_step step = *rows;
    step.first_slot = committed + staged, step.paths = 0, step.positions = positions;
    step.committed = committed, step.staged = staged, step.parents = parents;
    int32_t result = measure(&n) ? DT_OK : DT_BAD_ARGUMENT;
    for (int32_t row = 0; row < step.rows && !result; row++)
        positions[row] = committed + n.depth[staged + row];
    if (!result && !n.chain) {
        slots = lay_paths(&n, leaves, find_leaves(&n, leaves), &step);
        if (!slots) result = DT_NO_MEMORY;
    }
    if (!result) result = dt_forward(pool, segment, cache, &step);
    free(slots), free(memory);
    return result;
}

/* The positions of what follows each of the rows asked for: one more than their own, and `skipped`
 * more where the sequence's first tokens have no row. */
static void look_ahead(const dt_step *rows, int32_t committed, int32_t staged, const int32_t *parents,
                       int32_t skipped, int32_t *positions)
{
    for (int32_t i = 0; i < rows->logit_count; i++) {
        positions[i] = committed + skipped;
        for (int32_t node = staged + rows->logit_rows[i]; node >= 0; node = parents[node])
            positions[i]++;
    }
}

int32_t dt_expand(dt_pool *pool, const dt_segment *segment, dt_cache *cache, const dt_step *rows,
                  int32_t committed, int32_t staged, const int32_t *parents,
                  const dt_sampling *sampling, int32_t width, dt_candidate *out)
{
    const int32_t count = rows->logit_count, *wanted = rows->logit_rows;
    if (!segment->head.data || (segment->fusion && !rows->hidden_in)) return DT_BAD_ARGUMENT;
    for (int32_t i = 0; i < count; i++)
        if (wanted[i] < (i ? wanted[i - 1] + 1 : 0) || wanted[i] >= rows->rows) return DT_BAD_ARGUMENT;
    int32_t *positions = malloc(sizeof *positions * ((size_t)count + 1));
    if (!positions) return DT_NO_MEMORY;
    int32_t result = dt_forward_tree(pool, segment, cache, rows, committed, staged, parents);
    if (result == DT_OK) {
        look_ahead(rows, committed, staged, parents, segment->fusion != NULL, positions);
        result = dt_rank_each(pool, sampling, rows->logits, count, segment->head.rows, segment->ids, positions,
                              width, out);
    }
    free(positions);
    return result;
}

/* Moves the path's keys to the places behind the committed ones, where they do not lie there yet. */
static int32_t keep(dt_cache *cache, const dt_verification *v, int32_t committed)
{
    int32_t in_place = 0;
    while (in_place < v->length && v->path[in_place] == in_place) in_place++;
    const int32_t moved = v->length - in_place;
    if (!moved) return DT_OK;
    int32_t *slots = malloc(sizeof *slots * (size_t)moved);
    if (!slots) return DT_NO_MEMORY;
    for (int32_t i = 0; i < moved; i++) slots[i] = committed + v->path[in_place + i];
    dt_cache_move(cache, slots, moved, committed + in_place);
    free(slots);
    return DT_OK;
}

int32_t dt_verify_tree(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                       const dt_step *rows, int32_t committed, dt_sampler *sampler,
                       dt_verification *verification)
{
    int32_t result = dt_forward_tree(pool, segment, cache, rows, committed, 0, verification->parents);
    if (result == DT_OK) result = dt_verify(pool, sampler, verification);
    if (result == DT_OK) result = keep(cache, verification, committed);
    return result;
}
