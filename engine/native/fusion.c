/* How a feature head begins: what the target has computed joins the next token's embedding. */
#include "forward.h"

#include <string.h>

/* A row's features as they were given. */
static const float *given(const forward *f, int32_t row)
{
    const int64_t width = f->step->own ? f->segment->hidden : f->segment->fusion->width;
    return f->step->hidden_in + (f->start + row) * width;
}

/* ---- single rows ---------------------------------------------------------------------------- */

/* Copies so many numbers, normed in place if there is a norm; they are padded to whole blocks. */
static void copy_normed(const forward *f, float *from, const float *norm, int32_t count, float *to)
{
    const int32_t padded = dt_round_up(count, DT_BLOCK);
    if (norm) f->kernels->rms_norm(from, norm, count, padded, f->segment->norm_eps, from);
    memcpy(to, from, sizeof(float) * (size_t)count);
}

/* The embedding to `normed`, where nothing lies yet; the features to their place. */
static void enter_row(void *context, int32_t row)
{
    const forward *f = context;
    const dt_segment *s = f->segment;
    const size_t width = sizeof(float) * (size_t)(f->step->own ? s->hidden : s->fusion->width);
    float *embedded = f->normed + (int64_t)row * f->hidden, *wide = f->wide + (int64_t)row * f->wide_cols;
    dt_unpack_row(&s->embedding, f->step->tokens[f->start + row], embedded);
    for (int32_t i = 0; i < s->hidden; i++) embedded[i] *= s->embedding_scale;
    for (int32_t i = s->hidden; i < f->hidden; i++) embedded[i] = 0;
    if (s->fusion->kind == DT_LINEAR) {
        float *features = f->features + (int64_t)row * f->feature_cols;
        memcpy(features, given(f, row), width);
        copy_normed(f, embedded, s->fusion->norm, s->hidden, wide);
        copy_normed(f, features, s->fusion->feature_norm, s->fusion->width, wide + s->hidden);
    } else if (f->step->own && s->fusion->kind == DT_EAGLE3) {
        memcpy(f->x + (int64_t)row * f->hidden, given(f, row), width);
    } else {
        memcpy(f->features + (int64_t)row * f->feature_cols, given(f, row), width);
    }
    if (s->fusion->kind == DT_DGF)
        f->kernels->rms_norm(embedded, s->fusion->norm, s->hidden, f->hidden, s->norm_eps, embedded);
}

static void activate_row(void *context, int32_t row)
{
    const forward *f = context;
    f->kernels->silu(f->wide + (int64_t)row * f->wide_cols + f->segment->hidden, f->segment->hidden);
}

static void blend_row(void *context, int32_t row)
{
    const forward *f = context;
    const float *both = f->wide + (int64_t)row * f->wide_cols;
    f->kernels->blend(f->normed + (int64_t)row * f->hidden, both, both + f->segment->hidden,
                      f->segment->hidden, f->x + (int64_t)row * f->hidden);
}

/* What block 0 attends over: both norms side by side. */
static void widen_row(void *context, int32_t row)
{
    const forward *f = context;
    const dt_segment *s = f->segment;
    const size_t bytes = sizeof(float) * (size_t)s->hidden;
    float *x = f->x + (int64_t)row * f->hidden, *wide = f->wide + (int64_t)row * f->wide_cols;
    float *normed = f->normed + (int64_t)row * f->hidden;
    f->kernels->rms_norm(normed, s->block[0].input_norm, s->hidden, f->hidden, s->norm_eps, normed);
    memcpy(wide, normed, bytes);
    f->kernels->rms_norm(x, s->fusion->norm, s->hidden, f->hidden, s->norm_eps, normed);
    memcpy(wide + s->hidden, normed, bytes);
    if (s->fusion->residual_normed) memcpy(x, normed, bytes);
}

/* ---- the kinds ------------------------------------------------------------------------------ */

static void product(forward *f, const dt_matrix *matrix, float *x, int32_t cols, dt_output out)
{
    dt_prepare(f, matrix, 1, x, f->rows, cols, 0);
    dt_project(f, matrix, 1, x, f->rows, cols, out);
}

static void fuse_gated(forward *f, const dt_fusion *fusion)
{
    const int32_t hidden = f->segment->hidden;
    product(f, &fusion->feature, f->features, f->feature_cols, (dt_output){f->wide, NULL, f->wide_cols, 0});
    product(f, &fusion->token, f->normed, f->hidden, (dt_output){f->wide + hidden, NULL, f->wide_cols, 0});
    dt_run(f->pool, activate_row, f, f->rows);
    product(f, &fusion->gate, f->wide, f->wide_cols, (dt_output){f->normed, NULL, f->hidden, 0});
    dt_run(f->pool, blend_row, f, f->rows);
}

void dt_fuse(forward *f)
{
    const dt_fusion *fusion = f->segment->fusion;
    const dt_output to_x = {f->x, fusion->bias, f->hidden, 0};
    dt_run(f->pool, enter_row, f, f->rows);
    if (fusion->kind == DT_DGF) {
        fuse_gated(f, fusion);
    } else if (fusion->kind == DT_LINEAR) {
        product(f, &fusion->feature, f->wide, f->wide_cols, to_x);
    } else {
        if (!f->step->own) product(f, &fusion->feature, f->features, f->feature_cols, to_x);
        dt_run(f->pool, widen_row, f, f->rows);
    }
}
