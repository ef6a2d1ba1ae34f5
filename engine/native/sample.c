/* The target's draws: what is allowed, penalties, filters, noise, and the walk down a tree. */
#include "draw.h"

#include <math.h>

/* A token that penalties see, and how often it was said: at all, and in the answer. */
typedef struct {
    int32_t token, said, answered;
} heard;

struct dt_sampler {
    dt_sampling sampling;
    int32_t vocab, penalised, filtered;
    int32_t length;                 /* tokens committed */
    heard *heard;                   /* [vocab] entries, those of a slice's tokens at its start */
    int32_t known[DT_MOST_SLICES];  /* entries in use per slice */
    int32_t *place;                 /* [vocab] number of a token's entry + 1; 0: not heard */
    float *row;                     /* [vocab] logits after the grammar, the bias and the penalties */
    dt_room room;
};

/* Lays its arrays out behind it; returns the size of all, also without memory. */
static int64_t lay_out(dt_sampler *s, uint8_t *base)
{
    const int64_t padded = dt_round_up(s->vocab, DT_GROUP);
    dt_room *room = &s->room;
    int64_t used = 0;
    dt_lay(base, &used, 1, sizeof *s);
    if (s->penalised || s->sampling.constrained || s->sampling.biased)
        s->row = dt_lay(base, &used, padded, sizeof *s->row);
    if (s->penalised) {
        s->place = dt_lay(base, &used, padded, sizeof *s->place);
        s->heard = dt_lay(base, &used, padded, sizeof *s->heard);
    }
    if (s->filtered) {
        room->tops = dt_lay(base, &used, padded / DT_GROUP * 16, sizeof *room->tops);
        room->bins = dt_lay(base, &used, DT_MOST_SLICES * DT_BINS, sizeof *room->bins);
        room->tokens = dt_lay(base, &used, padded, sizeof *room->tokens);
        room->weight = dt_lay(base, &used, padded, sizeof *room->weight);
        room->logits = dt_lay(base, &used, padded, sizeof *room->logits);
        room->ordered = dt_lay(base, &used, padded, sizeof *room->ordered);
        room->spare = dt_lay(base, &used, padded, sizeof *room->spare);
    }
    return used;
}

static dt_sampler describe(const dt_sampling *sampling, int32_t vocab)
{
    return (dt_sampler){
        .sampling = *sampling,
        .vocab = vocab,
        .penalised = sampling->repetition != 1 || sampling->presence != 0 || sampling->frequency != 0,
        .filtered = sampling->temperature != 0 && (sampling->top_k > 0 || sampling->top_p < 1),
    };
}

int64_t dt_sampler_bytes(const dt_sampling *sampling, int32_t vocab)
{
    if (vocab < 1 || vocab > DT_MOST_VOCAB) return DT_BAD_ARGUMENT;
    dt_sampler s = describe(sampling, vocab);
    return lay_out(&s, NULL);
}

dt_sampler *dt_sampler_new(const dt_sampling *sampling, int32_t vocab, uint8_t *memory)
{
    if (vocab < 1 || vocab > DT_MOST_VOCAB) return NULL;
    dt_sampler *s = (dt_sampler *)memory;
    *s = describe(sampling, vocab);
    lay_out(s, memory);
    return s;
}

/* ---- penalties ----------------------------------------------------------------------------- */

static void hear(dt_sampler *s, int32_t token, int32_t position)
{
    if (!s->penalised || token < 0 || token >= s->vocab) return;
    if (!s->place[token]) {
        const int32_t slice = token / dt_slice_length(s->vocab);
        const int32_t entry = dt_slice_start(slice, s->vocab) + s->known[slice]++;
        s->heard[entry] = (heard){.token = token};
        s->place[token] = entry + 1;
    }
    heard *entry = &s->heard[s->place[token] - 1];
    entry->said++;
    entry->answered += position >= s->sampling.answer_start;
}

/* Take back the last token heard. */
static void unhear(dt_sampler *s, int32_t token, int32_t position)
{
    if (!s->penalised || token < 0 || token >= s->vocab) return;
    heard *entry = &s->heard[s->place[token] - 1];
    entry->answered -= position >= s->sampling.answer_start;
    if (--entry->said) return;
    s->place[token] = 0;
    s->known[token / dt_slice_length(s->vocab)]--;
}

void dt_sampler_commit(dt_sampler *s, const int32_t *tokens, int32_t count)
{
    for (int32_t i = 0; i < count; i++) hear(s, tokens[i], s->length++);
}

void dt_sampler_clear(dt_sampler *s)
{
    if (s->penalised) memset(s->place, 0, (size_t)s->vocab * sizeof *s->place);
    memset(s->known, 0, sizeof s->known);
    s->length = 0;
}

typedef struct {
    dt_sampler *s;
    const float *logits;
    const uint32_t *allowed; /* NULL: every token is */
} shaping_job;

/* -infinity in place of the logits [from, to) that are not allowed; `from` is a multiple of 32. */
static void forbid(float *row, const uint32_t *allowed, int32_t from, int32_t to)
{
    for (int32_t word = from; word < to; word += 32) {
        const uint32_t bits = allowed[word / 32];
        const int32_t count = to - word < 32 ? to - word : 32;
        if (bits == UINT32_MAX) continue;
        for (int32_t i = 0; i < count; i++)
            if (!(bits >> i & 1)) row[word + i] = -INFINITY;
    }
}

/* The slice's logits after the grammar, the bias and the penalties, rounded to fp32. */
static void shape_slice(void *context, int32_t slice)
{
    const shaping_job *job = context;
    const dt_sampler *s = job->s;
    const dt_sampling *sampling = &s->sampling;
    const int32_t from = dt_slice_start(slice, s->vocab), to = dt_slice_start(slice + 1, s->vocab);
    memcpy(s->row + from, job->logits + from, (size_t)(to - from) * sizeof *s->row);
    if (job->allowed) forbid(s->row, job->allowed, from, to);
    for (int32_t i = 0; i < sampling->biased; i++) {
        const int32_t token = sampling->bias_tokens[i];
        if (token >= from && token < to) s->row[token] += sampling->bias[i];
    }
    if (!s->penalised) return;
    for (const heard *entry = s->heard + from, *end = entry + s->known[slice]; entry < end; entry++) {
        double score = s->row[entry->token];
        score = score > 0 ? score / sampling->repetition : score * sampling->repetition;
        if (entry->answered) score -= sampling->presence + sampling->frequency * entry->answered;
        s->row[entry->token] = (float)score;
    }
}

/* ---- draws --------------------------------------------------------------------------------- */

/* The target's token at `position`, or DT_INVALID_LOGITS; `top` is the best of what it was drawn from. */
static int32_t draw(dt_pool *pool, dt_sampler *s, const float *row, const uint32_t *allowed, int32_t position,
                    float *top)
{
    const dt_sampling *sampling = &s->sampling;
    if (s->row) {
        shaping_job job = {s, row, allowed};
        dt_run_slices(pool, shape_slice, &job, s->vocab);
        row = s->row;
    }
    const dt_peak peak = dt_find_peak(pool, row, s->vocab, s->room.tops);
    if (peak.invalid) return DT_INVALID_LOGITS;
    *top = peak.value;
    if (sampling->temperature == 0) return peak.token;
    const dt_noise noise = dt_noise_at(sampling->seed, position);
    dt_search search = {
        .row = row,
        .peak = peak.value,
        .temperature = sampling->temperature,
        .noise = &noise,
        .cut = dt_filter(pool, sampling, &s->room, row, s->vocab, peak.value),
        .width = 1,
        .promise = dt_gumbel(dt_noise_word(&noise, peak.token)),
    };
    return dt_find_best(pool, &search, s->vocab);
}

/* What the logits alone give two tokens (b: -1 for none); grammar, penalties, filters and temperature do not
 * count. `top` is the best logit where nothing is penalised, biased or forbidden. */
static void weigh_up(dt_pool *pool, const dt_sampler *s, const float *row, float top, int32_t a, int32_t b,
                     float chance[2])
{
    if (s->row) top = dt_find_peak(pool, row, s->vocab, NULL).value;
    const double mass = dt_find_mass(pool, row, s->vocab, top) * 0x1p30;
    const int known = b >= 0 && b < s->vocab;
    const float logits[2] = {row[a], known ? row[b] : -INFINITY};
    int32_t weight[2];
    dt_active()->draw->weigh(logits, 2, top, weight);
    chance[0] = (float)(weight[0] / mass);
    chance[1] = known ? (float)(weight[1] / mass) : -1.0f;
}

/* The child of a node that has the token, or 0; `first` is its first child, or 0. */
static int32_t child_of(const dt_verification *v, int32_t node, int32_t token, int32_t *first)
{
    int32_t found = 0;
    *first = 0;
    for (int32_t below = node + 1; below < v->nodes; below++) {
        if (v->parents[below] != node) continue;
        if (!*first) *first = below;
        if (v->tokens[below] == token) found = below;
    }
    return found;
}

static int ends(const dt_verification *v, int32_t token)
{
    for (int32_t i = 0; i < v->stop_count; i++)
        if (v->stop_ids[i] == token) return 1;
    return 0;
}

int32_t dt_verify(dt_pool *pool, dt_sampler *s, dt_verification *v)
{
    if (v->nodes < 1 || v->limit < 1 || v->position < 0) return DT_BAD_ARGUMENT;
    int32_t node = 0, length = 0, status = DT_OK;
    v->accepted = v->offered = 0;
    for (;;) {
        const float *row = v->logits + (int64_t)node * s->vocab;
        const uint32_t *allowed = NULL;
        if (s->sampling.constrained && !(allowed = v->allowed(v->drawn, length))) {
            status = DT_BAD_ARGUMENT;
            break;
        }
        float top;
        const int32_t token = draw(pool, s, row, allowed, v->position + length, &top);
        if (token < 0) {
            status = token;
            break;
        }
        int32_t first, child = child_of(v, node, token, &first);
        if (v->chances) {
            const int32_t refused = first && !child ? v->tokens[first] : -1;
            weigh_up(pool, s, row, top, token, refused, v->chances + length);
        }
        v->path[length] = node;
        v->drawn[length++] = token;
        v->offered += first > 0;
        v->accepted += child > 0;
        if (!child || ends(v, token) || length >= v->limit) break;
        hear(s, token, v->position + length - 1);
        node = child;
    }
    v->length = length;
    for (int32_t i = length - (status == DT_OK) - 1; i >= 0; i--)
        unhear(s, v->drawn[i], v->position + i);
    return status;
}
