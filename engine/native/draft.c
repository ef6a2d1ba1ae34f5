/* A tree of drafted tokens, level by level; Decoder.grow in engine/backend/decoder.py says the same in Python. */
#include "draft.h"
#include "internal.h"
#include "tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A node of the tree; 0 is the root. `staged` tells where its keys are: -1 for the root; `row` which one it
 * was of the forward that computed it. */
typedef struct { int32_t token, parent, index, staged, row; double score; } candidate;

typedef struct {
    dt_pool *pool;
    const dt_segment *segment;
    dt_cache *cache;
    const dt_sampling *sampling;
    dt_drafting *to;
    int32_t start, width, vocab; /* start: first staged slot */
    int32_t position;            /* drafted first */
    int32_t count, beam_count;
    candidate *nodes;        /* [1 + width + (depth - 1) * width^2], in the order of drafting */
    int32_t *place;          /* as many: where each node is in the tree */
    int32_t *beams;          /* [width] nodes whose children come next, the best first */
    dt_candidate *likeliest; /* [width * width] */
    float *logits, *hidden;  /* [width, vocab], [max(pending, width), hidden] */
    float *own;              /* [width, hidden]: of a feature head, what it drafts on from; else nothing */
    int32_t *positions, *all_rows;
} draft;

/* ---- scratch ------------------------------------------------------------------------------- */

/* Lays the scratch memory out; returns its size, also without any. */
static int64_t lay_out(draft *d, uint8_t *base)
{
    const int64_t width = d->width, rows = d->to->pending > d->width ? d->to->pending : d->width;
    const int64_t nodes = 1 + width + (d->to->depth - 1) * width * width;
    int64_t used = 0;
    d->nodes = dt_lay(base, &used, nodes, sizeof *d->nodes);
    d->place = dt_lay(base, &used, nodes, sizeof *d->place);
    d->beams = dt_lay(base, &used, width, sizeof *d->beams);
    d->likeliest = dt_lay(base, &used, width * width, sizeof *d->likeliest);
    d->positions = dt_lay(base, &used, rows, sizeof *d->positions);
    d->all_rows = dt_lay(base, &used, width, sizeof *d->all_rows);
    d->hidden = dt_lay(base, &used, rows * d->segment->hidden, sizeof *d->hidden);
    d->logits = dt_lay(base, &used, width * d->vocab, sizeof *d->logits);
    if (d->segment->fusion) d->own = dt_lay(base, &used, width * d->segment->hidden, sizeof *d->own);
    return used;
}

int64_t dt_draft_bytes(const dt_segment *segment, const dt_drafting *drafting)
{
    dt_drafting to = *drafting;
    draft d = {.segment = segment, .to = &to, .width = to.width, .vocab = segment->head.rows};
    return lay_out(&d, NULL);
}

/* ---- forwards ------------------------------------------------------------------------------ */

/* The committed tokens that the draft has not seen; logits of the last one. */
static int32_t catch_up(draft *d)
{
    const int32_t rows = d->to->pending, last = rows - 1;
    for (int32_t row = 0; row < rows; row++) d->positions[row] = d->to->committed + row;
    const dt_step step = {
        .rows = rows, .first_slot = d->to->committed, .committed = d->to->committed, .logit_count = 1, .tokens = d->to->tokens,
        .positions = d->positions, .logit_rows = &last, .hidden_out = d->hidden, .logits = d->logits,
        .hidden_in = d->to->features, .cancel = d->to->cancel,
    };
    return dt_forward(d->pool, d->segment, d->cache, &step);
}

/* Stages the beams and computes their logits. */
static int32_t stage(draft *d)
{
    dt_drafting *to = d->to;
    const int32_t first = to->staged, rows = d->beam_count, hidden = d->segment->hidden;
    for (int32_t row = 0; d->own && row < rows; row++) {
        const candidate *parent = &d->nodes[d->nodes[d->beams[row]].parent];
        memcpy(d->own + (int64_t)row * hidden, d->hidden + (int64_t)parent->row * hidden,
               sizeof *d->own * (size_t)hidden);
    }
    for (int32_t row = 0; row < rows; row++) {
        candidate *node = &d->nodes[d->beams[row]];
        node->staged = to->staged++, node->row = row;
        to->staged_tokens[node->staged] = node->token;
        to->staged_parents[node->staged] = d->nodes[node->parent].staged;
        d->all_rows[row] = row;
    }
    const dt_step step = {
        .rows = rows, .logit_count = rows, .tokens = to->staged_tokens + first,
        .logit_rows = d->all_rows, .hidden_out = d->hidden, .logits = d->logits,
        .hidden_in = d->own, .cancel = to->cancel, .own = d->own != NULL,
    };
    return dt_forward_tree(d->pool, d->segment, d->cache, &step, d->start, first, to->staged_parents);
}

/* ---- the tree ------------------------------------------------------------------------------ */

/* The node's place among the best `width` so far; of equal ones the earlier is better. */
static int32_t keep_best(const draft *d, int32_t *best, int32_t kept, int32_t node)
{
    int32_t place = kept;
    while (place && d->nodes[best[place - 1]].score < d->nodes[node].score) place--;
    if (place == d->width) return kept;
    const int32_t moved = (kept < d->width ? kept : kept - 1) - place;
    memmove(best + place + 1, best + place, sizeof *best * (size_t)moved);
    best[place] = node;
    return kept < d->width ? kept + 1 : kept;
}

/* Adds the likeliest children of every beam; the best of them are the next beams. */
static int32_t widen(draft *d, int32_t level)
{
    const int32_t result = dt_rank(d->pool, d->sampling, d->logits, d->beam_count, d->vocab,
                                   d->segment->ids, d->position + level, d->width, d->likeliest);
    int32_t best[DT_MOST_WIDTH], kept = 0;
    for (int32_t row = 0; row < d->beam_count && result == DT_OK; row++) {
        const double above = d->nodes[d->beams[row]].score;
        for (int32_t k = 0; k < d->width; k++) {
            const dt_candidate *child = &d->likeliest[row * d->width + k];
            if (child->token < 0) break;
            const double score = above + (double)child->weight;
            d->nodes[d->count] = (candidate){
                child->token, d->beams[row], d->count, -1, 0, score < above ? score : above};
            kept = keep_best(d, best, kept, d->count++);
        }
    }
    memcpy(d->beams, best, sizeof *best * (size_t)kept);
    d->beam_count = kept;
    return result;
}

static int32_t grow(draft *d)
{
    const dt_drafting *to = d->to;
    int32_t result = catch_up(d);
    for (int32_t level = 0; result == DT_OK; level++) {
        result = widen(d, level);
        double mass = 0;
        for (int32_t i = 0; i < d->beam_count; i++) mass += exp(d->nodes[d->beams[i]].score);
        const int32_t room = to->slots - d->start - to->staged;
        if (level + 1 == to->depth || mass < to->floor || !d->beam_count || d->beam_count > room) break;
        if (result == DT_OK) result = stage(d);
    }
    return result;
}

static int by_score(const void *first, const void *second)
{
    const candidate *a = first, *b = second;
    if (a->score != b->score) return a->score < b->score ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

/* The best nodes, ranked. Parents were drafted before their children and score no less. */
static void hand_over(draft *d)
{
    dt_drafting *to = d->to;
    qsort(d->nodes + 1, (size_t)d->count - 1, sizeof *d->nodes, by_score);
    to->tree_nodes = d->count - 1 < to->nodes ? d->count : to->nodes + 1;
    for (int32_t i = 0; i < to->tree_nodes; i++) {
        const candidate *node = &d->nodes[i];
        d->place[node->index] = i;
        to->tree_tokens[i] = node->token;
        to->tree_parents[i] = i ? d->place[node->parent] : -1;
        to->tree_scores[i] = node->score;
    }
}

int32_t dt_draft(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                 const dt_sampling *sampling, uint8_t *scratch, dt_drafting *drafting)
{
    const dt_drafting *to = drafting;
    if (to->pending < 1 || to->depth < 1 || to->width < 1 || to->width > DT_MOST_WIDTH || to->nodes < 0)
        return DT_BAD_ARGUMENT;
    if (segment->fusion && !to->features) return DT_BAD_ARGUMENT;
    if (!segment->head.data || !segment->embedding.data || to->committed + to->pending > to->slots)
        return DT_BAD_ARGUMENT;
    draft d = {
        .pool = pool, .segment = segment, .cache = cache, .sampling = sampling, .to = drafting,
        .start = to->committed + to->pending,
        .position = to->committed + to->pending + (segment->fusion != NULL),
        .width = to->width, .vocab = segment->head.rows, .count = 1, .beam_count = 1,
    };
    lay_out(&d, scratch);
    drafting->staged = 0;
    d.nodes[0] = (candidate){to->tokens[to->pending - 1], -1, 0, -1, to->pending - 1, 0};
    d.beams[0] = 0;
    const int32_t result = grow(&d);
    if (result == DT_OK) hand_over(&d);
    return result;
}
