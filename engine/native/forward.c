/* One forward over a run of decoder blocks. */
#include "forward.h"
#include "mapped.h"

#include <string.h>

enum { CAPPED = 4096 }; /* logits that a thread caps at once */

/* ---- norms ---------------------------------------------------------------------------------- */

typedef struct {
    forward *f;
    const float *weight;
    int quantised;
} norm_job;

static void norm_row(void *context, int32_t row)
{
    const norm_job *job = context;
    const forward *f = job->f;
    float *normed = f->normed + (int64_t)row * f->hidden;
    f->kernels->rms_norm(f->x + (int64_t)row * f->hidden, job->weight, f->segment->hidden, f->hidden,
                         f->segment->norm_eps, normed);
    if (job->quantised) f->kernels->quantise(normed, row, f->hidden, 0, f->hidden / DT_BLOCK, f->quantised, f->spread);
}

/* x normed, ready for products with the matrices: row by row, so that none goes from one thread to another between. */
static void norm(forward *f, const float *weight, const dt_matrix *matrices, int32_t count)
{
    norm_job job = {f, weight, dt_takes_quantised(matrices, count)};
    dt_run(f->pool, norm_row, &job, f->rows);
}

/* x += norm(normed): where what a block's half adds is normed, it is in normed, which is free by then. */
static void add_row(void *context, int32_t row)
{
    const norm_job *job = context;
    const forward *f = job->f;
    float *x = f->x + (int64_t)row * f->hidden, *added = f->normed + (int64_t)row * f->hidden;
    f->kernels->rms_norm(added, job->weight, f->segment->hidden, f->hidden, f->segment->norm_eps, added);
    for (int32_t i = 0; i < f->segment->hidden; i++) x[i] += added[i];
}

static void add_normed(forward *f, const float *weight)
{
    norm_job job = {f, weight, 0};
    if (weight) dt_run(f->pool, add_row, &job, f->rows);
}

/* ---- the whole ------------------------------------------------------------------------------ */

/* Where a half of a block puts what it adds. */
static dt_output to_stream(const forward *f, const float *norm, const float *bias)
{
    return (dt_output){norm ? f->normed : f->x, bias, f->hidden, !norm};
}

static void feed_forward(forward *f, const dt_mlp *mlp, dt_output out, dt_matrices next)
{
    f->next = (dt_matrices){&mlp->down, 1};
    dt_project(f, mlp->gate_up, 2, f->normed, f->rows, f->hidden,
               (dt_output){f->gate_up, mlp->gate_up_bias, 2 * f->inner, 0});
    dt_prepare(f, &mlp->down, 1, f->act, f->rows, f->inner, 1);
    f->next = next;
    dt_project(f, &mlp->down, 1, f->act, f->rows, f->inner, out);
}

/* Numbers that a block's mixer puts out, and that it begins with. */
static int32_t mixed_width(const dt_block *block)
{
    const dt_delta *d = &block->delta;
    return d->key_heads ? d->value_heads * d->value_dim : block->heads * block->head_dim;
}

static int32_t in_width(const dt_block *block)
{
    const dt_delta *d = &block->delta;
    if (d->key_heads) return 2 * d->key_heads * d->key_dim + 2 * d->value_heads * (1 + d->value_dim);
    return (block->heads * (block->gated ? 2 : 1) + (block->kv_from ? 0 : 2 * block->kv_heads)) * block->head_dim;
}

/* qkv to mixed, by attention or by a state. */
static int32_t mix(forward *f, const dt_block *block)
{
    const int32_t width = mixed_width(block);
    f->mixed_cols = dt_round_up(width, DT_BLOCK);
    for (int32_t row = 0; row < f->rows && width < f->mixed_cols; row++)
        memset(f->mixed + (int64_t)row * f->mixed_cols + width, 0, sizeof(float) * (size_t)(f->mixed_cols - width));
    if (block->delta.key_heads) return dt_mix_by_state(f, block, &f->cache->layer[f->delta_layer++]);
    dt_attend(f);
    return DT_OK;
}

static int32_t run_block(forward *f, int32_t index)
{
    const dt_segment *s = f->segment;
    const dt_block *block = &s->block[index];
    const dt_matrices next =
        index + 1 < s->blocks ? (dt_matrices){block[1].in, DT_PARTS} : (dt_matrices){&s->head, 1};
    f->block = block, f->kept = &f->cache->kept[index];
    f->dim = dt_round_up(block->head_dim, DT_LANES), f->inner = dt_round_up(block->inner, DT_BLOCK);
    const int wide = index == 0 && dt_attends_wide(f->segment);
    float *in = wide ? f->wide : block->input_norm ? f->normed : f->x;
    const int32_t cols = wide ? f->wide_cols : f->hidden;
    if (in == f->normed) norm(f, block->input_norm, block->in, DT_PARTS);
    else dt_prepare(f, block->in, DT_PARTS, in, f->rows, cols, 0);
    f->next = (dt_matrices){&block->out, 1};
    dt_project(f, block->in, DT_PARTS, in, f->rows, cols, (dt_output){f->qkv, block->in_bias, f->qkv_cols, 0});
    if (mix(f, block)) return DT_BAD_ARGUMENT;
    dt_prepare(f, &block->out, 1, f->mixed, f->rows, f->mixed_cols, 0);
    f->next = (dt_matrices){block->mlp.gate_up, 2};
    dt_project(f, &block->out, 1, f->mixed, f->rows, f->mixed_cols,
               to_stream(f, block->attention_norm, block->out_bias));
    add_normed(f, block->attention_norm);
    norm(f, block->post_norm, block->mlp.gate_up, 2);
    if (block->experts.count) dt_moe(f, &block->experts, to_stream(f, block->mlp_norm, NULL));
    else feed_forward(f, &block->mlp, to_stream(f, block->mlp_norm, block->mlp.down_bias), next);
    add_normed(f, block->mlp_norm);
    return DT_OK;
}

static void enter(forward *f)
{
    const int32_t hidden = f->segment->hidden;
    const float scale = f->segment->embedding_scale;
    memset(f->x, 0, sizeof(float) * (size_t)f->rows * (size_t)f->hidden);
    for (int32_t row = 0; row < f->rows; row++) {
        float *x = f->x + (int64_t)row * f->hidden;
        if (f->step->hidden_in) {
            memcpy(x, f->step->hidden_in + (int64_t)(f->start + row) * hidden, sizeof(float) * (size_t)hidden);
            continue;
        }
        dt_unpack_row(&f->segment->embedding, f->step->tokens[f->start + row], x);
        for (int32_t i = 0; i < hidden; i++) x[i] *= scale;
    }
}

static void leave(forward *f, float *out)
{
    const int32_t hidden = f->segment->hidden;
    for (int32_t row = 0; row < f->rows; row++)
        memcpy(out + (int64_t)(f->start + row) * hidden, f->x + (int64_t)row * f->hidden,
               sizeof(float) * (size_t)hidden);
}

typedef struct {
    const forward *f;
    float *logits;
    int32_t count;
} cap_job;

static void cap_piece(void *context, int32_t index)
{
    const cap_job *job = context;
    const int32_t from = index * CAPPED, left = job->count - from;
    job->f->kernels->softcap(job->logits + from, left < CAPPED ? left : CAPPED, job->f->segment->logit_softcap);
}

/* Final norm, which is the logits' own in most feature heads, and the logits of the rows asked for; `done` of
 * them came from earlier slices. */
static int32_t finish(forward *f, int32_t done)
{
    const dt_segment *s = f->segment;
    const dt_step *step = f->step;
    const int returned = !s->fusion || s->fusion->returns_normed;
    for (int32_t row = 0; row < f->rows && returned; row++) {
        float *x = f->x + (int64_t)row * f->hidden;
        f->kernels->rms_norm(x, s->final_norm, s->hidden, f->hidden, s->norm_eps, x);
    }
    int32_t wanted = 0;
    while (done + wanted < step->logit_count && step->logit_rows[done + wanted] < f->start + f->rows) {
        const float *x = f->x + (int64_t)(step->logit_rows[done + wanted] - f->start) * f->hidden;
        float *to = f->normed + (int64_t)wanted * f->hidden;
        if (!returned && s->final_norm) f->kernels->rms_norm(x, s->final_norm, s->hidden, f->hidden, s->norm_eps, to);
        else memcpy(to, x, sizeof(float) * (size_t)f->hidden);
        wanted++;
    }
    if (wanted) {
        cap_job job = {f, step->logits + (int64_t)done * s->head.rows, wanted * s->head.rows};
        dt_prepare(f, &s->head, 1, f->normed, wanted, f->hidden, 0);
        dt_project(f, &s->head, 1, f->normed, wanted, f->hidden, (dt_output){job.logits, NULL, s->head.rows, 0});
        if (s->logit_softcap > 0) dt_run(f->pool, cap_piece, &job, (job.count + CAPPED - 1) / CAPPED);
    }
    return done + wanted;
}

static int32_t larger(int32_t a, int32_t b) { return a > b ? a : b; }

/* Lays the scratch memory of slices of so many rows out; returns its size, also without any. As many bytes of it
 * as `zeroed` says have to be zero. */
static int64_t lay_out(forward *f, int32_t rows, uint8_t *base, int64_t *zeroed)
{
    const int32_t most = larger(larger(f->inner, f->hidden), f->mixed_cols);
    const int32_t cols = larger(most, larger(f->wide_cols, f->feature_cols));
    const int64_t floats[] = {f->hidden, f->hidden, f->qkv_cols, f->query_cols, f->mixed_cols, 2 * f->inner, f->inner};
    float **place[] = {&f->x, &f->normed, &f->qkv, &f->query, &f->mixed, &f->gate_up, &f->act};
    const int64_t groups = dt_round_up(rows, DT_TILE_ROWS) / DT_TILE_ROWS;
    int64_t used = 0;
    for (int i = 0; i < 7; i++) *place[i] = dt_lay(base, &used, floats[i] * rows, sizeof(float));
    f->attended = dt_lay(base, &used, (int64_t)f->query_cols * rows, sizeof(float));
    f->words = dt_lay(base, &used, (int64_t)f->query_cols * rows, sizeof(int16_t));
    f->scales = dt_lay(base, &used, (int64_t)f->query_cols / DT_LANES * rows, sizeof(float));
    if (f->segment->fusion) {
        f->features = dt_lay(base, &used, (int64_t)f->feature_cols * rows, sizeof(float));
        f->wide = dt_lay(base, &used, (int64_t)f->wide_cols * rows, sizeof(float));
    }
    f->spread = dt_lay(base, &used, dt_spread_bytes(cols), 1);
    f->quantised = dt_lay(base, &used, groups * (cols / DT_BLOCK), sizeof(dt_quantised));
    used += dt_lay_out_mixture(f, rows, base ? base + used : NULL);
    *zeroed = used;
    return used + dt_lay_out_walk(f, rows, base ? base + used : NULL);
}

/* A forward as far as its segment tells: most numbers of any block. */
static forward of_segment(const dt_segment *segment)
{
    const dt_fusion *fusion = segment->fusion;
    const int32_t beside = fusion && !fusion->feature.rows ? fusion->width : segment->hidden;
    forward f = {
        .feature_cols = fusion ? dt_round_up(fusion->width, DT_BLOCK) : 0,
        .wide_cols = fusion ? dt_round_up(segment->hidden + beside, DT_BLOCK) : 0,
        .segment = segment,
        .hidden = dt_round_up(segment->hidden, DT_BLOCK),
    };
    for (const dt_block *block = segment->block; block < segment->block + segment->blocks; block++) {
        const int32_t dim = dt_round_up(block->head_dim, DT_LANES);
        f.qkv_cols = larger(f.qkv_cols, in_width(block));
        f.query_cols = larger(f.query_cols, block->heads * dim);
        f.mixed_cols = larger(f.mixed_cols, dt_round_up(mixed_width(block), DT_BLOCK));
        f.inner = larger(f.inner, dt_round_up(block->inner, DT_BLOCK));
        f.dim = larger(f.dim, dim);
    }
    return f;
}

int64_t dt_scratch_bytes(const dt_segment *segment, int32_t rows)
{
    forward f = of_segment(segment);
    int64_t zeroed;
    const int64_t used = lay_out(&f, rows < SLICE ? rows : SLICE, NULL, &zeroed);
    return used + dt_lay_out_leads(segment, rows);
}

int32_t dt_forward(dt_pool *pool, const dt_segment *segment, dt_cache *cache, const dt_step *step)
{
    forward f = of_segment(segment);
    f.pool = pool, f.kernels = dt_active()->forward, f.step = step, f.cache = cache;
    if (f.dim > MOST_DIM || (segment->fusion && !step->hidden_in)) return DT_BAD_ARGUMENT;
    const int32_t most = step->rows < SLICE ? step->rows : SLICE;
    int64_t zeroed;
    const int64_t bytes = lay_out(&f, most, NULL, &zeroed);
    if (bytes > segment->scratch_bytes) return DT_NO_MEMORY;
    memset(segment->scratch, 0, (size_t)zeroed);
    lay_out(&f, most, segment->scratch, &zeroed);
    dt_place_leads(&f, bytes);
    for (int32_t row = 0; step->slots && row < step->rows; row++) dt_extend(cache, step->slots[row] + 1);
    if (!step->slots) dt_extend(cache, step->first_slot + step->rows);
    int32_t done = 0;
    for (f.start = 0; f.start < step->rows; f.start += SLICE) {
        f.rows = step->rows - f.start < SLICE ? step->rows - f.start : SLICE;
        if (segment->fusion) dt_fuse(&f);
        else enter(&f);
        f.grouped[0] = f.delta_layer = 0;
        if (dt_plan_walk(&f)) return DT_BAD_ARGUMENT;
        for (int32_t block = 0; block < segment->blocks; block++) {
            if (step->cancel && *step->cancel) return DT_CANCELLED;
            if (run_block(&f, block)) return DT_BAD_ARGUMENT;
            for (int32_t tap = 0; tap < step->tap_count; tap++)
                if (step->taps[tap] == block)
                    leave(&f, step->tap_out + (int64_t)tap * step->rows * segment->hidden);
        }
        if (step->cancel && *step->cancel) return DT_CANCELLED;
        if (segment->head.data) done = finish(&f, done);
        leave(&f, step->hidden_out);
    }
    return dt_lost_pages() ? DT_LOST_WEIGHTS : DT_OK;
}

int32_t dt_snapshot(dt_pool *pool, const dt_segment *segment, dt_cache *cache, int32_t committed, uint8_t *to)
{
    const dt_step step = {.committed = committed};
    forward f = of_segment(segment);
    int64_t zeroed;
    f.pool = pool, f.kernels = dt_active()->forward, f.step = &step, f.cache = cache;
    const int64_t bytes = lay_out(&f, 1, NULL, &zeroed);
    if (bytes > segment->scratch_bytes) return DT_NO_MEMORY;
    lay_out(&f, 1, segment->scratch, &zeroed);
    dt_place_leads(&f, bytes);
    if (dt_plan_walk(&f)) return DT_BAD_ARGUMENT;
    for (int32_t i = 0; i < segment->blocks; i++) {
        const dt_block *block = &segment->block[i];
        dt_delta_state *state = &cache->layer[f.delta_layer];
        if (!block->delta.key_heads) continue;
        if (dt_mix_by_state(&f, block, state)) return DT_BAD_ARGUMENT;
        dt_delta_save(state, to);
        to += dt_delta_snapshot_bytes(&block->delta), f.delta_layer++;
    }
    return DT_OK;
}
