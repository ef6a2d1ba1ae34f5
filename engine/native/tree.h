/* Forwards over rows of a tree that are given by their parents, beside duotail.h and sample.h. */
#ifndef DUOTAIL_TREE_H
#define DUOTAIL_TREE_H

#include "sample.h"

/* The forward of `rows`, which are the last of the nodes staged behind `committed` tokens; `staged`
 * came before them. parents [staged + rows]: an earlier one of the nodes, or -1 for one that follows
 * the committed tokens. What of `rows` tells slots, positions and paths is not looked at.
 * Returns DT_OK, DT_NO_MEMORY, DT_BAD_ARGUMENT or DT_CANCELLED. */
DT_API int32_t dt_forward_tree(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                               const dt_step *rows, int32_t committed, int32_t staged,
                               const int32_t *parents);

/* That forward, and the `width` likeliest tokens behind each of the rows whose logits are wanted, as
 * dt_rank has them at the position that follows the row: out [logit_count, width]. The segment is a
 * whole model, or a feature head, whose first row is the sequence's second token. Returns what
 * dt_forward_tree does. */
DT_API int32_t dt_expand(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                         const dt_step *rows, int32_t committed, int32_t staged,
                         const int32_t *parents, const dt_sampling *sampling, int32_t width,
                         dt_candidate *out);

/* The verification of a whole tree in one call: the forward of its nodes behind `committed` tokens,
 * the draws down it, and the keys and values of the path that stays moved to their place. `rows` and
 * the verification share tokens and logits; logits of all rows are wanted.
 * Returns DT_OK, DT_NO_MEMORY, DT_BAD_ARGUMENT, DT_CANCELLED or DT_INVALID_LOGITS. */
DT_API int32_t dt_verify_tree(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                              const dt_step *rows, int32_t committed, dt_sampler *sampler,
                              dt_verification *verification);

#endif
