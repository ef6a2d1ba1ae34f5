/* Rows of logits, shared out to threads in slices: the best logit, the best tokens, ranking.
 *
 * Slices depend on the length of the row alone and are joined in order, so the result does not
 * depend on how many threads there are.
 */
#include "draw.h"

#include <math.h>

enum { PARTS = 2 * DT_MOST_SLICES }; /* slices of all rows at once */

static void run(dt_pool *pool, dt_task *task, void *context, int32_t count)
{
    if (pool) dt_run(pool, task, context, count);
    else
        for (int32_t index = 0; index < count; index++) task(context, index);
}

void dt_run_slices(dt_pool *pool, dt_task *task, void *context, int32_t vocab)
{
    run(pool, task, context, dt_slices(vocab));
}

/* ---- the best logit ------------------------------------------------------------------------ */

typedef struct {
    const float *rows; /* [rows, vocab] */
    float *tops;       /* of a single row, or NULL */
    int32_t vocab;
    dt_peak peak[PARTS];
} peak_job;

static void peak_of_part(void *context, int32_t part)
{
    peak_job *job = context;
    const int32_t vocab = job->vocab, slice = part % dt_slices(vocab);
    const float *row = job->rows + (int64_t)(part / dt_slices(vocab)) * vocab;
    job->peak[part] = dt_active()->draw->peak(row, dt_slice_start(slice, vocab),
                                      dt_slice_start(slice + 1, vocab), job->tops);
}

/* The best of slices in ascending order. */
static dt_peak highest(const dt_peak *peak, int32_t slices)
{
    dt_peak best = peak[0];
    for (int32_t slice = 1; slice < slices; slice++) {
        if (peak[slice].value > best.value)
            best.value = peak[slice].value, best.token = peak[slice].token;
        best.invalid |= peak[slice].invalid;
    }
    best.invalid |= !isfinite(best.value);
    return best;
}

dt_peak dt_find_peak(dt_pool *pool, const float *row, int32_t vocab, float *tops)
{
    peak_job job = {.rows = row, .tops = tops, .vocab = vocab};
    run(pool, peak_of_part, &job, dt_slices(vocab));
    return highest(job.peak, dt_slices(vocab));
}

/* ---- the best tokens ----------------------------------------------------------------------- */

typedef struct {
    dt_search *searches; /* one per row */
    int32_t vocab;
    dt_found found[PARTS];
} search_job;

static void search_part(void *context, int32_t part)
{
    search_job *job = context;
    const int32_t vocab = job->vocab, slice = part % dt_slices(vocab);
    dt_active()->draw->search(&job->searches[part / dt_slices(vocab)], dt_slice_start(slice, vocab),
                      dt_slice_start(slice + 1, vocab), &job->found[part]);
}

/* One list from those of a row's slices, in ascending order. */
static dt_found joined(const dt_found *parts, int32_t slices, int32_t width)
{
    dt_found found;
    found.count = 0, found.mass = 0;
    for (const dt_found *part = parts; part < parts + slices; part++) {
        for (int32_t i = 0; i < part->count; i++)
            dt_insert(&found, width, part->best[i].score, part->best[i].token);
        found.mass += part->mass;
    }
    return found;
}

int32_t dt_find_best(dt_pool *pool, dt_search *search, int32_t vocab)
{
    search_job job;
    job.searches = search, job.vocab = vocab;
    run(pool, search_part, &job, dt_slices(vocab));
    return joined(job.found, dt_slices(vocab), search->width).best[0].token;
}

double dt_find_mass(dt_pool *pool, const float *row, int32_t vocab, float peak)
{
    dt_search search = { /* that finds no token good enough */
        .row = row,
        .peak = peak,
        .temperature = 1,
        .cut = {INFINITY, -1},
        .width = 1,
        .weigh = 1,
        .promise = INFINITY,
    };
    search_job job;
    job.searches = &search, job.vocab = vocab;
    run(pool, search_part, &job, dt_slices(vocab));
    return joined(job.found, dt_slices(vocab), 1).mass;
}

/* ---- ranking ------------------------------------------------------------------------------- */

/* Where the tokens of a row stand: at positions[row * step] + shift. */
typedef struct {
    uint64_t seed;
    const int32_t *positions; /* NULL: without noise */
    int32_t step, shift;
} places;

/* Up to PARTS / slices rows; `plan` is what their searches have in common. */
static void rank_rows(dt_pool *pool, const float *logits, int32_t rows, int32_t vocab,
                      const dt_search *plan, places at, dt_candidate *out)
{
    const int32_t slices = dt_slices(vocab), width = plan->width;
    dt_search searches[PARTS];
    dt_noise noise[PARTS];
    union {
        peak_job peak;
        search_job search;
    } job;
    job.peak.rows = logits, job.peak.tops = NULL, job.peak.vocab = vocab;
    run(pool, peak_of_part, &job.peak, rows * slices);
    for (int32_t row = 0; row < rows; row++) {
        searches[row] = *plan;
        searches[row].row = logits + (int64_t)row * vocab;
        searches[row].peak = highest(job.peak.peak + row * slices, slices).value;
        if (!at.positions) continue;
        noise[row] = dt_noise_at(at.seed, at.positions[row * at.step] + at.shift);
        searches[row].noise = &noise[row];
    }
    job.search.searches = searches, job.search.vocab = vocab;
    run(pool, search_part, &job.search, rows * slices);
    for (int32_t row = 0; row < rows; row++, out += width) {
        const dt_found found = joined(job.search.found + row * slices, slices, width);
        const double all = found.count ? dt_log(found.mass) : 0;
        for (int32_t i = 0; i < width; i++)
            out[i] = i < found.count
                         ? (dt_candidate){found.best[i].token, (float)(found.best[i].score - all)}
                         : (dt_candidate){-1, -INFINITY};
    }
}

/* Of rows whose tokens stand at positions[row * step]. */
static int32_t rank(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                    int32_t vocab, const int32_t *ids, const int32_t *positions, int32_t step,
                    int32_t width, dt_candidate *out)
{
    if (rows < 0 || vocab < 1 || vocab > DT_MOST_VOCAB || width < 1 || width > DT_MOST_WIDTH)
        return DT_BAD_ARGUMENT;
    const int greedy = sampling->temperature == 0;
    const dt_search plan = {
        .temperature = greedy ? 1 : fmin(fmax(sampling->temperature, 1e-4), 1e4),
        .ids = ids,
        .cut = {-INFINITY, INT32_MAX},
        .width = width,
        .weigh = 1,
        .promise = -INFINITY,
    };
    const int32_t together = PARTS / dt_slices(vocab);
    for (int32_t row = 0; row < rows; row += together) {
        const int noisy = !greedy && sampling->share_noise;
        const places at = {sampling->seed, noisy ? positions + row * step : NULL, step, sampling->shift};
        rank_rows(pool, logits + (int64_t)row * vocab,
                  rows - row < together ? rows - row : together, vocab, &plan, at,
                  out + (int64_t)row * width);
    }
    return DT_OK;
}

int32_t dt_rank(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                int32_t vocab, const int32_t *ids, int32_t position, int32_t width, dt_candidate *out)
{
    if (position < 0) return DT_BAD_ARGUMENT;
    return rank(pool, sampling, logits, rows, vocab, ids, &position, 0, width, out);
}

int32_t dt_rank_each(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                     int32_t vocab, const int32_t *ids, const int32_t *positions, int32_t width,
                     dt_candidate *out)
{
    return rank(pool, sampling, logits, rows, vocab, ids, positions, 1, width, out);
}
