/* Products of a forward: activations made ready, and weights streamed by all threads. */
#include "forward.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONG_PIECE = 64,       /* block rows that a thread claims at once */
    LEAST_PIECE = 4,
    COLUMNS = 256,         /* of activations, per claimed piece */
    ALONE = 2048,          /* so many activations are ready before another thread has noticed */
};

int dt_takes_quantised(const dt_matrix *matrices, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (matrices[i].rows && dt_is_quantised(matrices[i].format)) return 1;
    return 0;
}

int dt_takes_floats(const dt_matrix *matrices, int32_t count)
{
    for (int32_t i = 0; i < count; i++)
        if (matrices[i].rows && !dt_is_quantised(matrices[i].format)) return 1;
    return 0;
}

static int32_t block_rows(const dt_matrix *matrix)
{
    return dt_round_up(matrix->rows, DT_LANES) / DT_LANES;
}

/* ---- products ------------------------------------------------------------------------------ */

typedef struct {
    const forward *f;
    const dt_product *products;
    int32_t block_rows, stretches, pieces; /* pieces of a stretch; some may be empty */
} product_job;

/* Block rows of a stretch's next piece: half of the `left` ones, an even number for two streams. */
static int32_t next_piece(int32_t left)
{
    int32_t piece = dt_round_up(left / 2, 2);
    piece = piece > LONG_PIECE ? LONG_PIECE : piece < LEAST_PIECE ? LEAST_PIECE : piece;
    return piece < left ? piece : left;
}

static int32_t pieces_of(int32_t left)
{
    int32_t pieces = 0;
    for (; left; pieces++) left -= next_piece(left);
    return pieces;
}

/* Who is done with a stretch expects the same one of the product that follows, as far as it lies in one matrix. */
static void expect_stretch(dt_matrices next, int64_t stretch, int32_t stretches)
{
    int64_t all = 0;
    for (int32_t i = 0; i < next.count; i++) all += block_rows(&next.matrix[i]);
    int64_t from = all * stretch / stretches, to = all * (stretch + 1) / stretches;
    for (const dt_matrix *m = next.matrix; from < to; m++) {
        const int64_t rows = block_rows(m), bytes = dt_block_row_bytes(m->format, m->cols);
        if (from < rows) {
            dt_expect(m->data + from * bytes, ((to < rows ? to : rows) - from) * bytes);
            return;
        }
        from -= rows, to -= rows;
    }
}

/* A piece counts block rows through all products and may lie across the border between two. */
static void product_piece(void *context, int32_t index)
{
    const product_job *job = context;
    const int64_t stretch = index / job->pieces, all = job->block_rows;
    int32_t from = (int32_t)(all * stretch / job->stretches);
    const int32_t end = (int32_t)(all * (stretch + 1) / job->stretches);
    for (int32_t before = index % job->pieces; before; before--) from += next_piece(end - from);
    int32_t to = from + next_piece(end - from);
    for (const dt_product *p = job->products; from < to; p++) {
        const int32_t rows = block_rows(p->matrix);
        if (from < rows) job->f->kernels->multiply(p->matrix, &p->x, &p->out, from, to < rows ? to : rows);
        from = from > rows ? from - rows : 0;
        to -= rows;
    }
    if (index % job->pieces == job->pieces - 1) expect_stretch(job->f->next, stretch, job->stretches);
}

/* Each thread has a stretch of its own, as long ones stream best. Its pieces become shorter towards the end, so that
 * who is done early can help. */
void dt_multiply(forward *f, const dt_product *products, int32_t count)
{
    int32_t all = 0;
    for (int32_t i = 0; i < count; i++) all += block_rows(products[i].matrix);
    const int32_t threads = dt_threads(f->pool), shorter = pieces_of(all / threads);
    const int32_t longer = pieces_of((all + threads - 1) / threads), pieces = shorter > longer ? shorter : longer;
    product_job job = {f, products, all, threads, pieces};
    dt_run(f->pool, product_piece, &job, threads * pieces);
    f->next = (dt_matrices){NULL, 0};
}

int32_t dt_line_up(const dt_matrix *matrices, int32_t count, dt_activations x, dt_output out,
                   dt_product *products)
{
    int32_t placed = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!matrices[i].rows) continue;
        products[placed++] = (dt_product){&matrices[i], x, out};
        out.y += matrices[i].rows;
        if (out.bias) out.bias += matrices[i].rows;
    }
    return placed;
}

void dt_project(forward *f, const dt_matrix *matrices, int32_t count, const float *x, int32_t rows,
                int32_t cols, dt_output out)
{
    dt_product products[MOST_PARTS];
    const dt_activations in = {x, f->quantised, f->spread, rows, cols, cols};
    dt_multiply(f, products, dt_line_up(matrices, count, in, out, products));
}

/* ---- activations ---------------------------------------------------------------------------- */

/* Columns go to threads, as neighbouring rows share cache lines once they are quantised. */
typedef struct {
    forward *f;
    float *x;
    int32_t rows, cols, width; /* columns of a piece */
    int quantised, gated; /* gated: x is still to be computed from gate and up */
} column_job;

static void gate_columns(const forward *f, int32_t row, int32_t from, int32_t to)
{
    const int32_t inner = f->block->inner, end = dt_round_up(inner, DT_LANES);
    const float *both = f->gate_up + (int64_t)row * 2 * f->inner;
    float *act = f->act + (int64_t)row * f->inner;
    const int32_t count = (to < end ? to : end) - from;
    f->kernels->gated[f->segment->activation](both + from, both + inner + from, count, act + from);
    for (int32_t i = inner; i < to; i++) act[i] = 0;
}

static void prepare_columns(void *context, int32_t index)
{
    const column_job *job = context;
    const int32_t from = index * job->width, end = from + job->width, to = end < job->cols ? end : job->cols;
    for (int32_t row = 0; row < job->rows; row++) {
        if (job->gated) gate_columns(job->f, row, from, to);
        if (job->quantised)
            job->f->kernels->quantise(job->x + (int64_t)row * job->cols, row, job->cols, from / DT_BLOCK,
                                      to / DT_BLOCK, job->f->quantised, job->f->spread);
    }
}

void dt_prepare(forward *f, const dt_matrix *matrices, int32_t count, float *x, int32_t rows,
                int32_t cols, int gated)
{
    const int quantised = dt_takes_quantised(matrices, count);
    if (!gated && !quantised) return;
    const int32_t width = rows * cols > ALONE ? COLUMNS : cols;
    column_job job = {f, x, rows, cols, width, quantised, gated};
    dt_run(f->pool, prepare_columns, &job, (cols + width - 1) / width);
}

int32_t dt_matmul(dt_pool *pool, const dt_matrix *matrix, const float *x, int32_t m, float *y)
{
    forward f = {.pool = pool, .kernels = dt_active()->forward};
    const int32_t cols = dt_round_up(matrix->cols, DT_BLOCK), blocks = cols / DT_BLOCK;
    const size_t groups = (size_t)dt_round_up(m, DT_TILE_ROWS) / DT_TILE_ROWS;
    float *raw = calloc((size_t)m * (size_t)cols, sizeof *raw);
    f.quantised = calloc(groups * (size_t)blocks, sizeof *f.quantised);
    f.spread = calloc(1, (size_t)dt_spread_bytes(cols));
    int32_t result = DT_NO_MEMORY;
    if (raw && f.quantised && f.spread) {
        for (int32_t row = 0; row < m; row++) {
            memcpy(raw + (int64_t)row * cols, x + (int64_t)row * matrix->cols, sizeof(float) * (size_t)matrix->cols);
        }
        dt_prepare(&f, matrix, 1, raw, m, cols, 0);
        dt_project(&f, matrix, 1, raw, m, cols, (dt_output){y, NULL, matrix->rows, 0});
        result = DT_OK;
    }
    free(raw), free(f.quantised), free(f.spread);
    return result;
}

void dt_lanes(int32_t operation, const float *a, const float *b, const float *c, float *y)
{
    dt_active()->forward->lanes(operation, a, b, c, y);
}
