/* Drafting a tree of tokens in one call: the third part of the C ABI, beside duotail.h. */
#ifndef DUOTAIL_DRAFT_H
#define DUOTAIL_DRAFT_H

#include "sample.h"

/* What to draft behind committed tokens, and the tree. Node 0 is the root, the last of them. */
typedef struct {
    int32_t committed;              /* tokens whose keys the cache holds */
    int32_t pending;                /* committed tokens behind those, at least one, ... */
    const int32_t *tokens;          /* ... [pending] */
    const float *features;          /* of a feature head: [pending, width], of the tokens before those */
    int32_t slots;                  /* of the cache, that may be used */
    int32_t nodes, depth, width;    /* most nodes; levels; nodes expanded per level and children of each */
    double floor;                   /* no level below paths that are less likely than this together */
    const volatile int32_t *cancel; /* as dt_step's: nothing is drafted once it is set */
    int32_t *tree_tokens, *tree_parents; /* out, [nodes + 1]: best scores first */
    double *tree_scores;
    int32_t *staged_tokens, *staged_parents; /* out, [(depth - 1) * width] */
    int32_t tree_nodes, staged;     /* out: nodes, the root included; nodes with keys in the cache */
} dt_drafting;

/* Scratch memory of such a draft; only pending, depth and width are looked at. */
DT_API int64_t dt_draft_bytes(const dt_segment *segment, const dt_drafting *drafting);

/* Process the pending tokens, then draft level by level with a model that is one segment: the
 * likeliest tokens as dt_rank has them, and below the best of each level their own. The staged
 * node i has its keys in slot committed + pending + i, and a staged node or -1 as its parent.
 * A feature head drafts on from what it puts out itself; its tokens stand one position further on in
 * the sequence than in its cache, which noise goes by.
 * `scratch` is at a 64-byte border. Returns DT_OK, DT_CANCELLED, DT_NO_MEMORY or DT_BAD_ARGUMENT. */
DT_API int32_t dt_draft(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                        const dt_sampling *sampling, uint8_t *scratch, dt_drafting *drafting);

#endif
