/* Mixtures of experts: every row of the slice goes through a few experts of its own choice.
 *
 * Rows are grouped by expert, so that the weights of each are read once, and not at all where no row
 * chose it; one that all rows share is as if all had chosen it. A row and one of its experts make a place. Every row adds up its own places in ascending
 * order of experts, so neither the other rows nor the threads matter.
 */
#include "forward.h"

#include <math.h>
#include <string.h>

enum { COLUMNS = 256 }; /* that a thread adds up at once */

/* An expert that rows chose: its places, and where their quantised activations begin. */
typedef struct { int32_t expert, first, count, group; } visit;

struct dt_mixture {
    int32_t visits;
    float *logits, *share;     /* [SLICE][experts], [SLICE][used] */
    int32_t *chosen, *place;   /* [SLICE][used], experts in ascending order */
    int32_t *row, *next;       /* [places]; [experts] */
    visit *visit;              /* [experts] */
    dt_product *products;      /* [2 * experts] */
    float *x, *gate_up, *act, *y; /* [places][...]; x is for products with floats */
    dt_quantised *quantised;   /* [groups][cols / DT_BLOCK] */
    int8_t *spread;            /* [experts][16 * cols] */
    int64_t group_blocks, spread_bytes;
};

/* Experts there are, and experts of a row, with the shared one. */
static int32_t all_of(const dt_experts *e) { return e->count + e->shared; }
static int32_t each_of(const dt_experts *e) { return e->used + e->shared; }

/* ---- scratch --------------------------------------------------------------------------------- */

/* Lays the scratch memory out for the largest of the segment's mixtures; returns its size. */
static int64_t lay_out(const forward *f, dt_mixture *m, int32_t rows, uint8_t *base)
{
    int64_t count = 0, used = 0, inner = 0, places, groups, cols;
    for (int32_t i = 0; i < f->segment->blocks; i++) {
        const dt_experts *e = &f->segment->block[i].experts;
        count = all_of(e) > count ? all_of(e) : count;
        used = each_of(e) > used ? each_of(e) : used;
        inner = e->intermediate > inner ? e->intermediate : inner;
    }
    inner = dt_round_up((int32_t)inner, DT_BLOCK), count = dt_round_up((int32_t)count, DT_LANES);
    places = rows * used, cols = inner > f->hidden ? inner : f->hidden;
    groups = places / DT_TILE_ROWS + (places < count ? places : count);
    int64_t bytes = 0;
    m->group_blocks = cols / DT_BLOCK, m->spread_bytes = dt_spread_bytes((int32_t)cols);
    m->logits = dt_lay(base, &bytes, rows * count, sizeof(float));
    m->share = dt_lay(base, &bytes, places, sizeof(float));
    m->chosen = dt_lay(base, &bytes, places, sizeof(int32_t));
    m->place = dt_lay(base, &bytes, places, sizeof(int32_t));
    m->row = dt_lay(base, &bytes, places, sizeof(int32_t));
    m->next = dt_lay(base, &bytes, count, sizeof(int32_t));
    m->visit = dt_lay(base, &bytes, count, sizeof(visit));
    m->products = dt_lay(base, &bytes, 2 * count, sizeof(dt_product));
    m->x = dt_lay(base, &bytes, places * f->hidden, sizeof(float));
    m->gate_up = dt_lay(base, &bytes, places * 2 * inner, sizeof(float));
    m->act = dt_lay(base, &bytes, places * inner, sizeof(float));
    m->y = dt_lay(base, &bytes, places * f->hidden, sizeof(float));
    m->spread = dt_lay(base, &bytes, places < count ? places : count, (size_t)m->spread_bytes);
    m->quantised = dt_lay(base, &bytes, groups * m->group_blocks, sizeof(dt_quantised));
    return bytes;
}

int64_t dt_lay_out_mixture(forward *f, int32_t rows, uint8_t *base)
{
    int any = 0;
    for (int32_t i = 0; i < f->segment->blocks; i++) any |= f->segment->block[i].experts.count > 0;
    if (!any) return 0;
    int64_t head = 0;
    dt_mixture plan, *mixture = dt_lay(base, &head, 1, sizeof plan);
    f->mixture = mixture;
    return head + lay_out(f, mixture ? mixture : &plan, rows, base ? base + head : NULL);
}

/* ---- the choice ------------------------------------------------------------------------------ */

/* The highest logits of a row, of equal ones those of the lowest experts; in ascending order of experts. */
static void choose(const float *logits, const dt_experts *e, int32_t *chosen)
{
    int32_t kept = 0;
    for (int32_t expert = 0; expert < e->count; expert++) {
        int32_t place = kept;
        while (place && logits[chosen[place - 1]] < logits[expert]) place--;
        if (place == e->used) continue;
        kept += kept < e->used;
        memmove(chosen + place + 1, chosen + place, sizeof *chosen * (size_t)(kept - 1 - place));
        chosen[place] = expert;
    }
    for (int32_t i = 1; i < e->used; i++)
        for (int32_t k = i; k && chosen[k - 1] > chosen[k]; k--) {
            const int32_t later = chosen[k - 1];
            chosen[k - 1] = chosen[k], chosen[k] = later;
        }
}

/* Softmax, summed up in ascending order of experts. */
static void weigh(const dt_kernels *kernels, float *logits, const dt_experts *e, const int32_t *chosen,
                  float *share)
{
    float top = logits[chosen[0]], total = 0;
    for (int32_t k = 1; k < e->used; k++) top = logits[chosen[k]] > top ? logits[chosen[k]] : top;
    for (int32_t i = 0; i < e->count; i++) logits[i] -= top;
    kernels->exponentials(logits, dt_round_up(e->count, DT_LANES));
    if (e->normalise)
        for (int32_t k = 0; k < e->used; k++) total += logits[chosen[k]];
    else
        for (int32_t i = 0; i < e->count; i++) total += logits[i];
    for (int32_t k = 0; k < e->used; k++) share[k] = logits[chosen[k]] / total;
}

/* A row's choice and its shares; the last may be the shared expert's. */
static void choose_and_weigh(const dt_kernels *kernels, float *logits, const dt_experts *e, int32_t *chosen,
                             float *share)
{
    const float all = 1, nothing = 0, gate = e->shared ? logits[e->count] : 0;
    choose(logits, e, chosen);
    weigh(kernels, logits, e, chosen, share);
    if (!e->shared) return;
    chosen[e->used] = e->count;
    kernels->blend(&gate, &all, &nothing, 1, &share[e->used]); /* sigmoid(gate) */
}

/* The rows' choices, and their places by expert. */
static void route(forward *f, const dt_experts *e)
{
    dt_mixture *m = f->mixture;
    const int32_t stride = dt_round_up(all_of(e), DT_LANES), each = each_of(e), places = f->rows * each;
    memset(m->next, 0, sizeof *m->next * (size_t)all_of(e));
    for (int32_t row = 0; row < f->rows; row++)
        choose_and_weigh(f->kernels, m->logits + (int64_t)row * stride, e, m->chosen + row * each,
                         m->share + row * each);
    for (int32_t i = 0; i < places; i++) m->next[m->chosen[i]]++;
    m->visits = 0;
    for (int32_t expert = 0, first = 0, group = 0; expert < all_of(e); expert++) {
        const int32_t count = m->next[expert];
        m->next[expert] = first;
        if (!count) continue;
        m->visit[m->visits++] = (visit){expert, first, count, group};
        first += count, group += dt_round_up(count, DT_TILE_ROWS) / DT_TILE_ROWS;
    }
    for (int32_t i = 0; i < places; i++) {
        m->place[i] = m->next[m->chosen[i]]++;
        m->row[m->place[i]] = i / each;
    }
}

/* ---- the feed-forwards ----------------------------------------------------------------------- */

typedef struct {
    forward *f;
    const dt_experts *experts;
    int32_t inner; /* padded to DT_BLOCK */
    dt_output out;
} expert_job;

/* One row of activations for an expert's products with `matrices`. */
static void make_ready(const forward *f, const dt_matrix *matrices, int32_t count, int32_t index,
                       int32_t row, const float *x, int32_t cols)
{
    const dt_mixture *m = f->mixture;
    const int32_t blocks = cols / DT_BLOCK;
    if (dt_takes_quantised(matrices, count))
        f->kernels->quantise(x, row, cols, 0, blocks, m->quantised + m->visit[index].group * (int64_t)blocks,
                             m->spread + index * m->spread_bytes);
}

static void enter_expert(void *context, int32_t index)
{
    const expert_job *job = context;
    const forward *f = job->f;
    const dt_mixture *m = f->mixture;
    const visit *v = &m->visit[index];
    const dt_mlp *mlp = &job->experts->expert[v->expert];
    for (int32_t i = 0; i < v->count; i++) {
        const int32_t place = v->first + i;
        const float *x = f->normed + (int64_t)m->row[place] * f->hidden;
        make_ready(f, mlp->gate_up, 2, index, i, x, f->hidden);
        if (dt_takes_floats(mlp->gate_up, 2))
            memcpy(m->x + (int64_t)place * f->hidden, x, sizeof *x * (size_t)f->hidden);
    }
}

static void activate_expert(void *context, int32_t index)
{
    const expert_job *job = context;
    const forward *f = job->f;
    const visit *v = &f->mixture->visit[index];
    const dt_mlp *mlp = &job->experts->expert[v->expert];
    const int32_t inner = job->experts->intermediate;
    for (int32_t i = 0; i < v->count; i++) {
        const float *gate = f->mixture->gate_up + (int64_t)(v->first + i) * 2 * job->inner;
        float *act = f->mixture->act + (int64_t)(v->first + i) * job->inner;
        f->kernels->gated[f->segment->activation](gate, gate + inner, dt_round_up(inner, DT_LANES), act);
        for (int32_t k = inner; k < job->inner; k++) act[k] = 0;
        make_ready(f, &mlp->down, 1, index, i, act, job->inner);
    }
}

/* The products of all visited experts with one part of their weights, as one. */
static void multiply_all(const expert_job *job, int down)
{
    const dt_mixture *m = job->f->mixture;
    const int32_t cols = down ? job->inner : job->f->hidden, stride = down ? job->f->hidden : 2 * job->inner;
    int32_t count = 0;
    for (int32_t i = 0; i < m->visits; i++) {
        const visit *v = &m->visit[i];
        const dt_mlp *mlp = &job->experts->expert[v->expert];
        const dt_activations x = {
            (down ? m->act : m->x) + (int64_t)v->first * cols,
            m->quantised + v->group * (int64_t)(cols / DT_BLOCK),
            m->spread + i * m->spread_bytes, v->count, cols, cols,
        };
        dt_output out = {(down ? m->y : m->gate_up) + (int64_t)v->first * stride,
                         down ? mlp->down_bias : mlp->gate_up_bias, stride, 0};
        count += down ? dt_line_up(&mlp->down, 1, x, out, m->products + count)
                      : dt_line_up(mlp->gate_up, 2, x, out, m->products + count);
    }
    dt_multiply(job->f, m->products, count);
}

static void add_up(void *context, int32_t index)
{
    const expert_job *job = context;
    const forward *f = job->f;
    const dt_mixture *m = f->mixture;
    const int32_t used = each_of(job->experts), from = index * COLUMNS;
    const int32_t to = from + COLUMNS < f->hidden ? from + COLUMNS : f->hidden;
    for (int32_t row = 0; row < f->rows; row++) {
        float sum[COLUMNS] = {0}, *y = job->out.y + (int64_t)row * job->out.stride;
        for (int32_t k = 0; k < used; k++) {
            const float *part = m->y + (int64_t)m->place[row * used + k] * f->hidden;
            const float share = m->share[row * used + k];
            for (int32_t i = from; i < to; i++) sum[i - from] += share * part[i];
        }
        for (int32_t i = from; i < to; i++) y[i] = job->out.add ? y[i] + sum[i - from] : sum[i - from];
    }
}

void dt_moe(forward *f, const dt_experts *experts, dt_output out)
{
    dt_mixture *m = f->mixture;
    expert_job job = {f, experts, dt_round_up(experts->intermediate, DT_BLOCK), out};
    dt_prepare(f, experts->router, 2, f->normed, f->rows, f->hidden, 0);
    dt_project(f, experts->router, 2, f->normed, f->rows, f->hidden,
               (dt_output){m->logits, experts->router_bias, dt_round_up(all_of(experts), DT_LANES), 0});
    route(f, experts);
    dt_run(f->pool, enter_expert, &job, m->visits);
    multiply_all(&job, 0);
    dt_run(f->pool, activate_expert, &job, m->visits);
    multiply_all(&job, 1);
    dt_run(f->pool, add_up, &job, (f->hidden + COLUMNS - 1) / COLUMNS);
}
