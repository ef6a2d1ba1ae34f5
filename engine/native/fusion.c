/* How a feature head begins: what the target has computed joins the next token's embedding. */
#include "forward.h"

#include <string.h>

/* A row's features as they were given. */
static const float *given(const forward *f, int32_t row)
{
    const int64_t width = f->step->own ? f->segment->hidden : f->segment->fusion->width;
    return f->step->hidden_in + (f->start + row) * width;
}

/* Whether features enter as they are given, as x: the head's own, where no matrix comes behind. */
static int enters_as_x(const forward *f) { return f->step->own && dt_attends_wide(f->segment); }

/* ---- single rows ---------------------------------------------------------------------------- */

/* The embedding, normed, to `normed`, where nothing lies yet; the features to their place. */
static void enter_row(void *context, int32_t row)
{
    const forward *f = context;
    const dt_segment *s = f->segment;
    const size_t width = sizeof(float) * (size_t)(f->step->own ? s->hidden : s->fusion->width);
    float *embedded = f->normed + (int64_t)row * f->hidden;
    float *x = f->x + (int64_t)row * f->hidden, *features = f->features + (int64_t)row * f->feature_cols;
    dt_unpack_row(&s->embedding, f->step->tokens[f->start + row], embedded);
    for (int32_t i = 0; i < s->hidden; i++) embedded[i] *= s->embedding_scale;
    for (int32_t i = s->hidden; i < f->hidden; i++) embedded[i] = 0;
    memcpy(enters_as_x(f) ? x : features, given(f, row), width);
    if (s->fusion->token_norm)
        f->kernels->rms_norm(embedded, s->fusion->token_norm, s->hidden, f->hidden, s->norm_eps, embedded);
}

/* Both side by side, as far as no product has put them there. */
static void join_row(void *context, int32_t row)
{
    const forward *f = context;
    const dt_segment *s = f->segment;
    const dt_fusion *fusion = s->fusion;
    const size_t bytes = sizeof(float) * (size_t)s->hidden;
    float *wide = f->wide + (int64_t)row * f->wide_cols, *normed = f->normed + (int64_t)row * f->hidden;
    float *x = f->x + (int64_t)row * f->hidden, *path = x;
    if (!fusion->feature.rows) path = f->features + (int64_t)row * f->feature_cols;
    memcpy(wide, normed, bytes);
    if (fusion->feature_norm)
        f->kernels->rms_norm(path, fusion->feature_norm, s->hidden, f->hidden, s->norm_eps, normed), path = normed;
    memcpy(wide + s->hidden, path, bytes);
    if (fusion->residual_normed) memcpy(x, path, bytes);
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

/* ---- the equation --------------------------------------------------------------------------- */

static void product(forward *f, const dt_matrix *matrix, float *x, int32_t cols, dt_output out)
{
    if (!matrix->rows) return;
    dt_prepare(f, matrix, 1, x, f->rows, cols, 0);
    dt_project(f, matrix, 1, x, f->rows, cols, out);
}

void dt_fuse(forward *f)
{
    const dt_fusion *fusion = f->segment->fusion;
    const dt_output to_x = {f->x, NULL, f->hidden, 0}, first = {f->wide, NULL, f->wide_cols, 0};
    const dt_output second = {f->wide + f->segment->hidden, NULL, f->wide_cols, 0};
    dt_run(f->pool, enter_row, f, f->rows);
    if (!enters_as_x(f)) product(f, &fusion->feature, f->features, f->feature_cols, fusion->gated ? first : to_x);
    product(f, &fusion->token, f->normed, f->hidden, second);
    dt_run(f->pool, fusion->token.rows ? activate_row : join_row, f, f->rows);
    product(f, &fusion->join, f->wide, f->wide_cols,
            fusion->gated ? (dt_output){f->normed, NULL, f->hidden, 0} : (dt_output){f->x, fusion->bias, f->hidden, 0});
    if (fusion->gated) dt_run(f->pool, blend_row, f, f->rows);
}
