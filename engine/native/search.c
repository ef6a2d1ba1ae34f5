/* Rows of logits, shared out to threads in slices: the best logit, the best tokens, ranking.
 *
 * Slices depend on the length of the row alone and are joined in order, so the result does not
 * depend on how many threads there are.
 */
#include "draw.h"

#include <math.h>

const dt_draw_kernels *dt_draw(void)
{
#if defined(__x86_64__)
    const int32_t isa = dt_current_isa();
    if (isa >= DT_AVX512) return &dt_draw_avx512;
    if (isa == DT_AVX2) return &dt_draw_avx2;
#endif
    return &dt_draw_portable;
}

void dt_run_slices(dt_pool *pool, dt_task *task, void *context, int32_t vocab)
{
    const int32_t slices = dt_slices(vocab);
    if (pool) dt_run(pool, task, context, slices);
    else
        for (int32_t slice = 0; slice < slices; slice++) task(context, slice);
}

typedef struct {
    const float *row;
    float *tops;
    int32_t vocab;
    dt_peak peak[DT_MOST_SLICES];
} peak_job;

static void peak_of_slice(void *context, int32_t slice)
{
    peak_job *job = context;
    const int32_t from = dt_slice_start(slice, job->vocab), to = dt_slice_start(slice + 1, job->vocab);
    job->peak[slice] = dt_draw()->peak(job->row, from, to, job->tops);
}

dt_peak dt_find_peak(dt_pool *pool, const float *row, int32_t vocab, float *tops)
{
    peak_job job = {.row = row, .tops = tops, .vocab = vocab};
    dt_run_slices(pool, peak_of_slice, &job, vocab);
    dt_peak best = job.peak[0];
    for (int32_t slice = 1; slice < dt_slices(vocab); slice++) {
        if (job.peak[slice].value > best.value)
            best.value = job.peak[slice].value, best.token = job.peak[slice].token;
        best.invalid |= job.peak[slice].invalid;
    }
    best.invalid |= !isfinite(best.value);
    return best;
}

typedef struct {
    dt_search *search;
    int32_t vocab;
    dt_found found[DT_MOST_SLICES];
} search_job;

static void search_slice(void *context, int32_t slice)
{
    search_job *job = context;
    const int32_t from = dt_slice_start(slice, job->vocab), to = dt_slice_start(slice + 1, job->vocab);
    dt_draw()->search(job->search, from, to, &job->found[slice]);
}

void dt_find_best(dt_pool *pool, dt_search *search, int32_t vocab, dt_found *found)
{
    search_job job;
    job.search = search, job.vocab = vocab;
    dt_run_slices(pool, search_slice, &job, vocab);
    found->count = 0, found->mass = 0;
    for (int32_t slice = 0; slice < dt_slices(vocab); slice++) {
        const dt_found *part = &job.found[slice];
        for (int32_t i = 0; i < part->count; i++)
            dt_insert(found, search->width, part->best[i].score, part->best[i].token);
        found->mass += part->mass;
    }
}

int32_t dt_rank(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                int32_t vocab, int32_t position, int32_t width, dt_candidate *out)
{
    if (rows < 0 || vocab < 1 || vocab > DT_MOST_VOCAB || position < 0 || width < 1 ||
        width > DT_MOST_WIDTH)
        return DT_BAD_ARGUMENT;
    const int greedy = sampling->temperature == 0;
    const dt_noise noise = dt_noise_at(sampling->seed, position);
    for (int32_t row = 0; row < rows; row++, out += width) {
        dt_search search = {
            .row = logits + (int64_t)row * vocab,
            .temperature = greedy ? 1 : fmin(fmax(sampling->temperature, 1e-4), 1e4),
            .noise = greedy || !sampling->share_noise ? NULL : &noise,
            .cut = {-INFINITY, INT32_MAX},
            .width = width,
            .weigh = 1,
        };
        atomic_init(&search.promise, -INFINITY);
        dt_found found;
        search.peak = dt_find_peak(pool, search.row, vocab, NULL).value;
        dt_find_best(pool, &search, vocab, &found);
        const double all = found.count ? dt_log(found.mass) : 0;
        for (int32_t i = 0; i < width; i++)
            out[i] = i < found.count
                         ? (dt_candidate){found.best[i].token, (float)(found.best[i].score - all)}
                         : (dt_candidate){-1, -INFINITY};
    }
    return DT_OK;
}
