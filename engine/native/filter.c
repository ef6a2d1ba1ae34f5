/* Top-k, top-p and min-p without sorting the vocabulary.
 *
 * Each keeps a beginning of the order (higher logit first, then lower token), so together they are
 * one cut in it. To find the cut only the tokens close to it are sorted.
 */
#include "draw.h"

#include <float.h>
#include <math.h>

/* ---- order --------------------------------------------------------------------------------- */

static uint32_t key_of(float logit)
{
    uint32_t bits;
    logit += 0.0f; /* -0 and 0 are equal */
    memcpy(&bits, &logit, 4);
    return bits >> 31 ? bits : ~bits & 0x7fffffff;
}

static float float_of(uint32_t key)
{
    const uint32_t bits = key >> 31 ? key : ~key & 0x7fffffff;
    float logit;
    memcpy(&logit, &bits, 4);
    return logit;
}

/* Higher logits first; equal ones keep their order. */
static void sort(const dt_room *room, int32_t count)
{
    dt_ordered *from = room->ordered, *to = room->spare;
    for (int shift = 0; shift < 32; shift += 8) {
        int32_t place[257] = {0};
        for (int32_t i = 0; i < count; i++) place[(from[i].key >> shift & 255) + 1]++;
        for (int digit = 0; digit < 256; digit++) place[digit + 1] += place[digit];
        for (int32_t i = 0; i < count; i++) to[place[from[i].key >> shift & 255]++] = from[i];
        dt_ordered *swap = from;
        from = to, to = swap;
    }
}

typedef struct {
    const float *row;
    int32_t vocab;
    float low, below, peak, far;
    const dt_room *room;
    int32_t count[DT_MOST_SLICES];
} slice_job;

static void gather_slice(void *context, int32_t slice)
{
    slice_job *job = context;
    const int32_t from = dt_slice_start(slice, job->vocab), to = dt_slice_start(slice + 1, job->vocab);
    job->count[slice] = dt_active()->draw->gather(job->row, from, to, job->low, job->below,
                                                 job->room->tokens + from);
}

/* room->ordered: the tokens with logits in [low, below), in order. Returns how many. */
static int32_t in_order(dt_pool *pool, slice_job *job, float low, float below)
{
    const dt_room *room = job->room;
    job->low = low, job->below = below;
    dt_run_slices(pool, gather_slice, job, job->vocab);
    int32_t count = 0;
    for (int32_t slice = 0; slice < dt_slices(job->vocab); slice++)
        for (int32_t i = 0; i < job->count[slice]; i++) {
            const int32_t token = room->tokens[dt_slice_start(slice, job->vocab) + i];
            room->ordered[count++] = (dt_ordered){key_of(job->row[token]), token};
        }
    sort(room, count);
    return count;
}

/* The lowest number for which `holds`; it holds for `known` and whatever is above. */
static float lowest(int (*holds)(float, double, float), double context, float peak, float known)
{
    uint32_t low = key_of(-INFINITY), high = key_of(known); /* keys fall as the number rises */
    while (high < low) {
        const uint32_t middle = high + (low - high + 1) / 2;
        if (holds(float_of(middle), context, peak)) high = middle;
        else low = middle - 1;
    }
    return float_of(high);
}

/* ---- the three filters --------------------------------------------------------------------- */

/* The k-th smallest of the keys, by their bytes from the highest on. */
static uint32_t kth_key(dt_ordered *list, int32_t count, int32_t k)
{
    for (int shift = 24; shift >= 0; shift -= 8) {
        int32_t with[256] = {0}, kept = 0;
        uint32_t digit = 0;
        for (int32_t i = 0; i < count; i++) with[list[i].key >> shift & 255]++;
        while (k > with[digit]) k -= with[digit++];
        for (int32_t i = 0; i < count; i++)
            if ((list[i].key >> shift & 255) == digit) list[kept++] = list[i];
        count = kept;
    }
    return list[0].key;
}

/* A logit that at least `k` tokens reach, and not many more. */
static float top_k_floor(const dt_room *room, int32_t vocab, int32_t k)
{
    const int32_t groups = (vocab + DT_GROUP - 1) / DT_GROUP, lanes = groups * 16;
    if (k > lanes) return -INFINITY;
    const int32_t step = k <= groups ? 16 : 1; /* k maxima of different tokens are enough */
    for (int32_t i = 0; i < lanes; i += step) {
        float top = room->tops[i];
        for (int32_t j = i + 1; j < i + step; j++) top = room->tops[j] > top ? room->tops[j] : top;
        room->ordered[i / step].key = key_of(top);
    }
    return float_of(kth_key(room->ordered, lanes / step, k));
}

/* room->weight of the first `count` tokens of room->ordered; returns the sum. */
static int64_t weigh(const slice_job *job, int32_t count)
{
    const dt_room *room = job->room;
    int64_t total = 0;
    for (int32_t i = 0; i < count; i++) room->logits[i] = job->row[room->ordered[i].token];
    dt_active()->draw->weigh(room->logits, count, job->peak, room->weight);
    for (int32_t i = 0; i < count; i++) total += room->weight[i];
    return total;
}

/* How many weights it takes to bring `sum` up to `wanted`. */
static int32_t reach(const int32_t *weight, int32_t count, int64_t sum, double wanted)
{
    int32_t taken = 0;
    while (taken < count) {
        sum += weight[taken++];
        if ((double)sum >= wanted) break;
    }
    return taken;
}

/* room->ordered: the `k` best tokens, if there are so many. Returns how many of them top-p leaves. */
static int32_t top_k_then_top_p(dt_pool *pool, slice_job *job, int32_t k, double top_p)
{
    const float low = fmaxf(top_k_floor(job->room, job->vocab, k), -FLT_MAX); /* what is forbidden does not count */
    const int32_t count = in_order(pool, job, low, INFINITY);
    if (count < k) k = count;
    if (top_p == 1) return k;
    const int64_t total = weigh(job, k);
    return reach(job->room->weight, k, 0, top_p * (double)total);
}

static void tally_slice(void *context, int32_t slice)
{
    slice_job *job = context;
    const int32_t from = dt_slice_start(slice, job->vocab), to = dt_slice_start(slice + 1, job->vocab);
    int64_t *bins = job->room->bins + slice * DT_BINS;
    memset(bins, 0, DT_BINS * sizeof *bins);
    dt_active()->draw->tally(job->row, from, to, job->peak, job->far, bins);
}

static int in_bin(float logit, double bin, float peak)
{
    return rintf((logit - peak) * DT_BIN_SCALE) <= (float)bin;
}

/* Logits further below the peak than this are not where top-p cuts: even if all tokens were there,
 * they would weigh less than what it leaves out, which is 1 - top_p of more than the tops weigh. */
static float far_below(const slice_job *job, double top_p)
{
    const int32_t lanes = (job->vocab + DT_GROUP - 1) / DT_GROUP * 16;
    int64_t sum = 0;
    dt_active()->draw->weigh(job->room->tops, lanes, job->peak, job->room->weight);
    for (int32_t i = 0; i < lanes; i++) sum += job->room->weight[i];
    const double each = (1 - top_p) * (double)sum / job->vocab - 1; /* rounding: at most 1/2 */
    return each < 1 ? -22.0f : fmaxf(fminf((float)dt_log(each * 0x1p-30) - 0.01f, -3.0f), -22.0f);
}

/* room->ordered: the tokens of the bin in which top-p cuts. Returns how many of them it leaves. */
static int32_t top_p_of_all(dt_pool *pool, slice_job *job, double top_p)
{
    int64_t *bins = job->room->bins, total = 0, sum = 0;
    job->far = far_below(job, top_p);
    dt_run_slices(pool, tally_slice, job, job->vocab);
    for (int32_t slice = 1; slice < dt_slices(job->vocab); slice++)
        for (int32_t b = 0; b < DT_BINS; b++) bins[b] += bins[slice * DT_BINS + b];
    for (int32_t b = 0; b < DT_BINS; b++) total += bins[b];
    const double wanted = top_p * (double)total;
    int32_t bin = 0;
    while ((double)(sum + bins[bin]) < wanted) sum += bins[bin++];
    const float low = lowest(in_bin, bin, job->peak, job->peak);
    const float below = bin ? lowest(in_bin, bin - 1, job->peak, job->peak) : INFINITY;
    const int32_t count = in_order(pool, job, low, below);
    weigh(job, count);
    return reach(job->room->weight, count, sum, wanted);
}

static int likely(float logit, double log_min_p, float peak)
{
    return (double)logit - (double)peak >= log_min_p;
}

dt_cut dt_filter(dt_pool *pool, const dt_sampling *sampling, const dt_room *room, const float *row,
                 int32_t vocab, float peak)
{
    slice_job job = {.row = row, .vocab = vocab, .peak = peak, .room = room};
    dt_cut cut = {-INFINITY, INT32_MAX};
    int32_t kept = 0;
    if (sampling->top_k > 0 && sampling->top_k < vocab)
        kept = top_k_then_top_p(pool, &job, sampling->top_k, sampling->top_p);
    else if (sampling->top_p < 1)
        kept = top_p_of_all(pool, &job, sampling->top_p);
    if (kept) {
        cut.token = room->ordered[kept - 1].token;
        cut.value = row[cut.token];
    }
    if (sampling->min_p > 0) {
        const float low = lowest(likely, dt_log(sampling->min_p), peak, peak);
        if (low > cut.value) cut = (dt_cut){low, INT32_MAX};
    }
    return cut;
}
