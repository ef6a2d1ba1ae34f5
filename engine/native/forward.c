/* One forward over a run of decoder blocks. */
#include "forward.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONG_PIECE = 32, SHORT_PIECE = 4, /* block rows of a matrix that a thread claims at once */
    COLUMNS = 256,         /* of activations, per claimed piece */
};

/* ---- products ------------------------------------------------------------------------------ */

typedef struct {
    const dt_kernels *kernels;
    const dt_matrix *matrix;
    const dt_activations *x;
    const dt_output *out;
    int32_t block_rows, long_pieces;
} product_job;

static void product_piece(void *context, int32_t index)
{
    const product_job *job = context;
    const int32_t before = index < job->long_pieces ? index : job->long_pieces;
    const int32_t from = before * LONG_PIECE + (index - before) * SHORT_PIECE;
    const int32_t to = from + (index < job->long_pieces ? LONG_PIECE : SHORT_PIECE);
    job->kernels->multiply(job->matrix, job->x, job->out, from,
                           to < job->block_rows ? to : job->block_rows);
}

/* Long stretches stream best; short ones at the end let all threads finish together. */
static void multiply(dt_pool *pool, const dt_kernels *kernels, const dt_matrix *matrix,
                     const dt_activations *x, const dt_output *out)
{
    const int32_t block_rows = dt_round_up(matrix->rows, DT_LANES) / DT_LANES;
    const int32_t spare = block_rows - dt_threads(pool) * LONG_PIECE;
    const int32_t long_pieces = spare > 0 ? spare / LONG_PIECE : 0;
    const int32_t rest = block_rows - long_pieces * LONG_PIECE;
    product_job job = {kernels, matrix, x, out, block_rows, long_pieces};
    dt_run(pool, product_piece, &job, long_pieces + (rest + SHORT_PIECE - 1) / SHORT_PIECE);
}

static int is_quantised(const dt_matrix *matrix)
{
    return matrix->format == DT_Q4 || matrix->format == DT_Q8;
}

/* y = x * matrix^T for `rows` rows of x [rows, cols], which were quantised if they need to be. */
static void project(forward *f, const dt_matrix *matrix, const float *x, int32_t cols, int32_t rows,
                    const float *bias, float *y, int32_t stride, int32_t add)
{
    dt_activations in = {x, f->quantised, f->spread, rows, cols, cols};
    dt_output out = {y, bias, stride, add};
    multiply(f->pool, f->kernels, matrix, &in, &out);
}

/* ---- activations: norms row by row, the rest by columns ------------------------------------ */

/* Columns go to threads, as neighbouring rows share cache lines once they are quantised. */
typedef struct {
    forward *f;
    const dt_matrix *matrix; /* what the activations will be multiplied with */
    float *x;
    int32_t rows, cols;
    int gated; /* x is still to be computed from gate and up */
} column_job;

static void gate_columns(const forward *f, int32_t row, int32_t from, int32_t to)
{
    const int32_t inner = f->segment->intermediate, end = dt_round_up(inner, DT_LANES);
    const float *both = f->gate_up + (int64_t)row * 2 * f->inner;
    float *act = f->act + (int64_t)row * f->inner;
    f->kernels->gated(both + from, both + inner + from, (to < end ? to : end) - from, act + from);
    for (int32_t i = inner; i < to; i++) act[i] = 0;
}

static void prepare_columns(void *context, int32_t index)
{
    const column_job *job = context;
    const int32_t from = index * COLUMNS, to = from + COLUMNS < job->cols ? from + COLUMNS : job->cols;
    for (int32_t row = 0; row < job->rows; row++) {
        if (job->gated) gate_columns(job->f, row, from, to);
        if (is_quantised(job->matrix))
            job->f->kernels->quantise(job->x + (int64_t)row * job->cols, row, job->cols, from / DT_BLOCK,
                                      to / DT_BLOCK, job->f->quantised, job->f->spread);
    }
}

static void prepare(forward *f, const dt_matrix *matrix, float *x, int32_t rows, int32_t cols, int gated)
{
    if (!gated && !is_quantised(matrix)) return;
    column_job job = {f, matrix, x, rows, cols, gated};
    dt_run(f->pool, prepare_columns, &job, (cols + COLUMNS - 1) / COLUMNS);
}

typedef struct {
    forward *f;
    const float *weight;
} norm_job;

static void norm_row(void *context, int32_t row)
{
    const norm_job *job = context;
    const forward *f = job->f;
    f->kernels->rms_norm(f->x + (int64_t)row * f->hidden, job->weight, f->segment->hidden, f->hidden,
                         f->segment->norm_eps, f->normed + (int64_t)row * f->hidden);
}

static void norm(forward *f, const float *weight)
{
    norm_job job = {f, weight};
    dt_run(f->pool, norm_row, &job, f->rows);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void run_block(forward *f, int32_t index)
{
    const dt_segment *s = f->segment;
    const dt_block *block = &s->block[index];
    f->block_index = index;
    norm(f, block->input_norm);
    prepare(f, &block->qkv, f->normed, f->rows, f->hidden, 0);
    project(f, &block->qkv, f->normed, f->hidden, f->rows, block->qkv_bias, f->qkv, f->qkv_cols, 0);
    dt_attend(f);
    prepare(f, &block->out, f->mixed, f->rows, f->mixed_cols, 0);
    project(f, &block->out, f->mixed, f->mixed_cols, f->rows, block->out_bias, f->x, f->hidden, 1);
    norm(f, block->post_norm);
    prepare(f, &block->gate_up, f->normed, f->rows, f->hidden, 0);
    project(f, &block->gate_up, f->normed, f->hidden, f->rows, block->gate_up_bias, f->gate_up,
            2 * f->inner, 0);
    prepare(f, &block->down, f->act, f->rows, f->inner, 1);
    project(f, &block->down, f->act, f->inner, f->rows, block->down_bias, f->x, f->hidden, 1);
}

static void enter(forward *f)
{
    const int32_t hidden = f->segment->hidden;
    memset(f->x, 0, sizeof(float) * (size_t)f->rows * (size_t)f->hidden);
    for (int32_t row = 0; row < f->rows; row++) {
        float *x = f->x + (int64_t)row * f->hidden;
        if (f->step->hidden_in)
            memcpy(x, f->step->hidden_in + (int64_t)(f->start + row) * hidden, sizeof(float) * (size_t)hidden);
        else
            dt_unpack_row(&f->segment->embedding, f->step->tokens[f->start + row], x);
    }
}

static void leave(forward *f, float *out)
{
    const int32_t hidden = f->segment->hidden;
    for (int32_t row = 0; row < f->rows; row++)
        memcpy(out + (int64_t)(f->start + row) * hidden, f->x + (int64_t)row * f->hidden,
               sizeof(float) * (size_t)hidden);
}

/* Final norm, and the logits of the rows asked for; `done` of them came from earlier slices. */
static int32_t finish(forward *f, int32_t done)
{
    const dt_segment *s = f->segment;
    const dt_step *step = f->step;
    for (int32_t row = 0; row < f->rows; row++) {
        float *x = f->x + (int64_t)row * f->hidden;
        f->kernels->rms_norm(x, s->final_norm, s->hidden, f->hidden, s->norm_eps, x);
    }
    int32_t wanted = 0;
    while (done + wanted < step->logit_count && step->logit_rows[done + wanted] < f->start + f->rows) {
        const float *x = f->x + (int64_t)(step->logit_rows[done + wanted] - f->start) * f->hidden;
        float *to = f->normed + (int64_t)wanted * f->hidden;
        memcpy(to, x, sizeof(float) * (size_t)f->hidden);
        wanted++;
    }
    if (wanted) {
        prepare(f, &s->head, f->normed, wanted, f->hidden, 0);
        project(f, &s->head, f->normed, f->hidden, wanted, NULL,
                step->logits + (int64_t)done * s->head.rows, s->head.rows, 0);
    }
    return done + wanted;
}

/* Scratch memory of a forward, as one allocation. */
static void *take_scratch(forward *f, int32_t rows)
{
    const int32_t most = f->inner > f->hidden ? f->inner : f->hidden;
    const int32_t cols = most > f->mixed_cols ? most : f->mixed_cols;
    const int64_t floats[] = {f->hidden, f->hidden, f->qkv_cols, (int64_t)f->segment->heads * f->dim,
                              f->mixed_cols, 2 * f->inner, f->inner};
    float **place[] = {&f->x, &f->normed, &f->qkv, &f->query, &f->mixed, &f->gate_up, &f->act};
    const int64_t groups = dt_round_up(rows, DT_TILE_ROWS) / DT_TILE_ROWS;
    int64_t bytes = 64 + groups * (cols / DT_BLOCK) * (int64_t)sizeof(dt_quantised);
    bytes += cols * 16 + 1024;
    for (int i = 0; i < 7; i++) bytes += (floats[i] * rows * 4 + 127) / 64 * 64;
    uint8_t *memory = calloc(1, (size_t)bytes);
    if (!memory) return NULL;
    uint8_t *next = memory + (64 - (uintptr_t)memory % 64);
    for (int i = 0; i < 7; i++) {
        *place[i] = (float *)next;
        next += (floats[i] * rows * 4 + 63) / 64 * 64;
    }
    f->spread = (int8_t *)next;
    f->quantised = (dt_quantised *)(next + dt_round_up(cols * 16, 1024));
    return memory;
}

int32_t dt_forward(dt_pool *pool, const dt_segment *segment, dt_cache *cache, const dt_step *step)
{
    forward f = {
        .pool = pool,
        .kernels = dt_active(),
        .segment = segment,
        .step = step,
        .cache = cache,
        .hidden = dt_round_up(segment->hidden, DT_BLOCK),
        .mixed_cols = dt_round_up(segment->heads * segment->head_dim, DT_BLOCK),
        .inner = dt_round_up(segment->intermediate, DT_BLOCK),
        .qkv_cols = (segment->heads + 2 * segment->kv_heads) * segment->head_dim,
        .dim = dt_round_up(segment->head_dim, DT_LANES),
    };
    if (f.dim > MOST_DIM) return DT_BAD_ARGUMENT;
    void *scratch = take_scratch(&f, step->rows < SLICE ? step->rows : SLICE);
    if (!scratch) return DT_NO_MEMORY;
    int32_t done = 0;
    for (f.start = 0; f.start < step->rows; f.start += SLICE) {
        f.rows = step->rows - f.start < SLICE ? step->rows - f.start : SLICE;
        enter(&f);
        dt_group_rows(&f);
        for (int32_t block = 0; block < segment->blocks; block++) {
            run_block(&f, block);
            for (int32_t tap = 0; tap < step->tap_count; tap++)
                if (step->taps[tap] == block)
                    leave(&f, step->tap_out + (int64_t)tap * step->rows * segment->hidden);
        }
        if (segment->head.data) done = finish(&f, done);
        leave(&f, step->hidden_out);
    }
    free(scratch);
    return DT_OK;
}

int32_t dt_matmul(dt_pool *pool, const dt_matrix *matrix, const float *x, int32_t m, float *y)
{
    forward f = {.pool = pool, .kernels = dt_active()};
    const int32_t cols = dt_round_up(matrix->cols, DT_BLOCK), blocks = cols / DT_BLOCK;
    const size_t groups = (size_t)dt_round_up(m, DT_TILE_ROWS) / DT_TILE_ROWS;
    float *raw = calloc((size_t)m * (size_t)cols, sizeof *raw);
    f.quantised = calloc(groups * (size_t)blocks, sizeof *f.quantised);
    f.spread = calloc((size_t)blocks + 1, 512);
    int32_t result = DT_NO_MEMORY;
    if (raw && f.quantised && f.spread) {
        for (int32_t row = 0; row < m; row++) {
            memcpy(raw + (int64_t)row * cols, x + (int64_t)row * matrix->cols, sizeof(float) * (size_t)matrix->cols);
        }
        prepare(&f, matrix, raw, m, cols, 0);
        project(&f, matrix, raw, cols, m, NULL, y, matrix->rows, 0);
        result = DT_OK;
    }
    free(raw), free(f.quantised), free(f.spread);
    return result;
}
