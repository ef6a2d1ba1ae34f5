/* What the sampler's sources share: the kernels that go over a row of logits, and their results. */
#ifndef DUOTAIL_DRAW_H
#define DUOTAIL_DRAW_H

#include "internal.h"
#include "noise.h"
#include "sample.h"

#include <stdatomic.h>

enum {
    DT_GROUP = 256,      /* tokens whose maxima are kept together, lane by lane */
    DT_BINS = 1024,      /* of probability mass by logit */
    DT_MOST_SLICES = 16, /* parts of a row that threads share; they depend on its length alone */
};

/* The best logit and the lowest token that has it. */
typedef struct {
    float value;
    int32_t token, invalid; /* invalid: NaN among the logits */
} dt_peak;

/* Filters keep a beginning of the order (higher logit first, then lower token): the tokens that
 * come before this one in it, and itself. */
typedef struct {
    float value;
    int32_t token;
} dt_cut;

/* A search for the tokens of the best (logit - peak) / temperature + noise. */
typedef struct {
    const float *row;
    float peak;
    double temperature;
    const dt_noise *noise; /* NULL: none */
    const int32_t *ids;    /* see dt_rank; what is found is named by them */
    dt_cut cut;
    int32_t width, weigh;    /* tokens wanted; whether to sum up the weights */
    _Atomic(double) promise; /* the last of the best `width` scores at least this much */
} dt_search;

typedef struct {
    double score;
    int32_t token;
} dt_scored;

/* What one slice has: its best tokens, best first, and its sum of exp(score). */
typedef struct {
    dt_scored best[DT_MOST_WIDTH];
    double mass;
    int32_t count;
} dt_found;

/* All work on the tokens [from, to) of a row; `from` is a multiple of DT_GROUP. */
typedef struct dt_draw_kernels {
    /* tops, if not NULL, gets 16 maxima per group: of the tokens of the same lane. */
    dt_peak (*peak)(const float *row, int32_t from, int32_t to, float *tops);
    /* weight[i] = exp(x[i] - peak) in units of 2^-30: whole, so all orders of summing agree. */
    void (*weigh)(const float *x, int32_t count, float peak, int32_t *weight);
    /* Adds the weights to the bins of the logits; those of logits below peak + far, where far lies
     * in [-22, -3], to the last bin. */
    void (*tally)(const float *row, int32_t from, int32_t to, float peak, float far, int64_t *bins);
    /* The tokens whose logits lie in [low, below), ascending; returns how many. */
    int32_t (*gather)(const float *row, int32_t from, int32_t to, float low, float below,
                      int32_t *tokens);
    void (*search)(dt_search *search, int32_t from, int32_t to, dt_found *found);
} dt_draw_kernels;

extern const dt_draw_kernels dt_draw_portable, dt_draw_avx2, dt_draw_avx512, dt_draw_neon;

/* (logit - peak) times this, rounded, is the bin of a logit; at most 1012. */
#define DT_BIN_SCALE (-46.0f)

/* The slices of a row that threads share: how many, and where each begins. */
static inline int32_t dt_slice_length(int32_t vocab)
{
    const int32_t even = (vocab + DT_MOST_SLICES - 1) / DT_MOST_SLICES;
    return dt_round_up(even > 8192 ? even : 8192, DT_GROUP);
}

static inline int32_t dt_slices(int32_t vocab)
{
    return (vocab + dt_slice_length(vocab) - 1) / dt_slice_length(vocab);
}

static inline int32_t dt_slice_start(int32_t slice, int32_t vocab)
{
    const int32_t start = slice * dt_slice_length(vocab);
    return start < vocab ? start : vocab;
}

/* task(context, slice) for all slices of a row, on all threads of `pool`, which may be NULL. */
void dt_run_slices(dt_pool *pool, dt_task *task, void *context, int32_t vocab);

/* A token among the `width` best so far; one of an equal score goes behind. */
static inline void dt_insert(dt_found *found, int32_t width, double score, int32_t token)
{
    int32_t place = found->count;
    if (place < width) found->count++;
    else if (score > found->best[width - 1].score) place--;
    else return;
    for (; place && score > found->best[place - 1].score; place--)
        found->best[place] = found->best[place - 1];
    found->best[place] = (dt_scored){score, token};
}

/* The best logit of a row, and the token of the best score. */
dt_peak dt_find_peak(dt_pool *pool, const float *row, int32_t vocab, float *tops);
int32_t dt_find_best(dt_pool *pool, dt_search *search, int32_t vocab);

/* The sum of exp(logit - peak) over a row; what is more than 16 below the peak hardly counts. */
double dt_find_mass(dt_pool *pool, const float *row, int32_t vocab, float peak);

/* As dt_rank, but the tokens of each row [rows] stand at a position of its own. */
int32_t dt_rank_each(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                     int32_t vocab, const int32_t *ids, const int32_t *positions, int32_t width,
                     dt_candidate *out);

typedef struct {
    uint32_t key; /* falls as the logit rises */
    int32_t token;
} dt_ordered;

/* Room that the filters work in; all but tops and bins holds dt_round_up(vocab, DT_GROUP). */
typedef struct {
    float *tops;   /* [groups, 16]; see dt_draw_kernels */
    int64_t *bins; /* [DT_MOST_SLICES, DT_BINS] */
    int32_t *tokens, *weight;
    float *logits;
    dt_ordered *ordered, *spare;
} dt_room;

/* Where top-k, top-p and min-p cut a row whose peak and tops are known. */
dt_cut dt_filter(dt_pool *pool, const dt_sampling *sampling, const dt_room *room, const float *row,
                 int32_t vocab, float peak);

#endif
