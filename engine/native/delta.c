/* Gated delta layers (Gated Delta Networks, arXiv 2412.06464) of a forward, and their states.
 *
 * A row's q|k|v go through a causal convolution along its path and SiLU; each head of q and k is scaled to length
 * 1, q also by key_dim^-1/2. With share = sigmoid(beta), decay = exp(rate * softplus(alpha + dt_bias)) and the
 * state S [key_dim, value_dim] of a value head:
 *     S <- decay * S;  d = share * (v - S^T k);  S <- S + k d^T;  o = S^T q;  y = norm(o) * silu(gate)
 *
 * Columns of S do not know each other. So 16 of them go through all rows of a round before the next 16 are read,
 * and a round reads the state once, however many rows it has; trees are walked depth first.
 *
 * A round does not change the state: its rows are kept, and the next one that is told of more committed tokens
 * first takes those in. So a rejected draft costs nothing, and there is nothing to undo. Only the earlier parts of
 * a forward too long to be kept go into the state at once.
 *
 * The rows of a long chain are a prompt's: all of them will be committed, unless somebody stops it. Where they lead to
 * is left in the segment's scratch memory, for the next forward to begin with instead of taking them in. It belongs to
 * the last such forward alone, which a number tells that no other has.
 */
#include "delta.h"
#include "forward.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

enum {
    LONG = 17,      /* rows of a chain that is no draft */
    LANES = 16,     /* tasks of a walk; each has some of the heads, and memory of its own */
    MOST_WIDTH = 8, /* of the convolution */
    NODES = 2 * DT_MOST_ROWS,
};

/* A node of the walk and where it finds and leaves the state: a lane's buffer, or -1 for the state itself. */
typedef struct { int32_t node, from, to; } visit;

/* Nodes are the tokens that the state takes in, then staged ones, then the slice's rows. */
struct dt_walk {
    int32_t committed, staged; /* as the slice has it */
    const int32_t *parents;    /* of staged nodes and rows; NULL: a chain */
    int32_t taken, eager;      /* tokens to take in first; whether the rows are, too */
    int32_t visits, open, buffers;
    visit visit[DT_MOST_ROWS]; /* their nodes count from the first staged one */
    uint8_t needed[DT_MOST_ROWS];
    float *query, *key, *value, *share, *decay; /* [NODES][heads...] */
    float *buffer;             /* [LANES][buffers][key_dim][16] */
    uint8_t *leads, *next;     /* of all layers, and of the layer that comes; NULL where there is no room for any */
    int32_t leading;           /* whether the slice is a long chain, kept and not taken in */
};

/* ---- the walk ------------------------------------------------------------------------------ */

static int32_t parent_of(const dt_walk *w, int32_t node)
{
    return w->parents ? w->parents[node] : node - 1;
}

/* Visits what hangs below a node: its last child may overwrite what the others begin with. */
static void descend(dt_walk *w, int32_t nodes, int32_t above, int32_t from)
{
    int32_t last = -1;
    for (int32_t node = above + 1; node < nodes; node++)
        if (w->needed[node] && parent_of(w, node) == above) last = node;
    for (int32_t node = above + 1; node <= last; node++) {
        if (!w->needed[node] || parent_of(w, node) != above) continue;
        const int32_t alone = node == last && from >= 0, to = alone ? from : w->open++;
        w->buffers = w->open > w->buffers ? w->open : w->buffers;
        w->visit[w->visits++] = (visit){node, from, to};
        descend(w, nodes, node, to);
        if (!alone) w->open--;
    }
}

/* The order of a chain, which needs no search. */
static void follow(dt_walk *w, int32_t nodes)
{
    for (int32_t node = 0; node < nodes; node++)
        w->visit[node] = (visit){node, w->eager || node == 0 ? -1 : 0, w->eager ? -1 : 0};
    w->visits = nodes, w->buffers = 1;
}

/* Numbers that a prepared node has of each kind. */
static int32_t key_floats(const dt_delta *d) { return d->key_heads * up(d->key_dim); }
static int32_t value_floats(const dt_delta *d) { return d->value_heads * up(d->value_dim); }

int64_t dt_lay_out_walk(forward *f, int32_t rows, uint8_t *base)
{
    int64_t keys = 0, values = 0, heads = 0, block = 0, used = 0;
    for (int32_t i = 0; i < f->segment->blocks; i++) {
        const dt_delta *d = &f->segment->block[i].delta;
        if (!d->key_heads) continue;
        keys = key_floats(d) > keys ? key_floats(d) : keys;
        values = value_floats(d) > values ? value_floats(d) : values;
        heads = up(d->value_heads) > heads ? up(d->value_heads) : heads;
        block = up(d->key_dim) * DT_LANES > block ? up(d->key_dim) * DT_LANES : block;
    }
    if (!keys) return 0;
    /* A tree of n nodes has branches in branches at most n / 2 deep, and every one ends in a row. */
    const int32_t most = DT_MOST_ROWS / 2 + 1, buffers = rows < most ? rows : most;
    dt_walk *w = f->walk = dt_lay(base, &used, 1, sizeof *w), plan;
    if (!w) w = &plan;
    w->query = dt_lay(base, &used, NODES * keys, sizeof(float));
    w->key = dt_lay(base, &used, NODES * keys, sizeof(float));
    w->value = dt_lay(base, &used, NODES * values, sizeof(float));
    w->share = dt_lay(base, &used, NODES * heads, sizeof(float));
    w->decay = dt_lay(base, &used, NODES * heads, sizeof(float));
    w->buffer = dt_lay(base, &used, LANES * buffers * block, sizeof(float));
    return used;
}

int64_t dt_lay_out_leads(const dt_segment *segment, int32_t rows)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < segment->blocks && rows >= LONG; i++)
        if (segment->block[i].delta.key_heads) bytes += dt_delta_lead_bytes(&segment->block[i].delta);
    return bytes ? LEAD_HEAD + bytes : 0; /* wherever they may begin */
}

void dt_place_leads(forward *f, int64_t used)
{
    const int64_t bytes = dt_lay_out_leads(f->segment, LONG), room = f->segment->scratch_bytes - bytes;
    const int64_t first = (room + LEAD_HEAD - 1) / LEAD_HEAD * LEAD_HEAD;
    if (f->walk) f->walk->leads = room < used ? NULL : f->segment->scratch + first;
}

int32_t dt_plan_walk(forward *f)
{
    dt_walk *w = f->walk;
    const dt_step *step = f->step;
    if (!w) return DT_OK;
    const int32_t more = step->rows - f->start > f->rows, before = step->staged;
    const int chain = !step->paths && !step->slots;
    if (step->slots || before + f->rows > DT_MOST_ROWS || ((f->start || more) && (before || !chain)))
        return DT_BAD_ARGUMENT;
    w->committed = step->committed + f->start, w->staged = before;
    w->parents = step->parents, w->eager = more;
    if (f->start) w->parents = NULL;
    w->visits = w->open = w->buffers = 0;
    w->next = w->leads, w->leading = chain && !before && !more && f->rows >= LONG;
    const int32_t nodes = before + f->rows;
    if (chain || !w->parents) {
        memset(w->needed, 1, sizeof w->needed);
        follow(w, nodes);
        return DT_OK;
    }
    memset(w->needed, 0, sizeof w->needed);
    for (int32_t row = before; row < nodes; row++)
        for (int32_t node = row; node >= 0 && !w->needed[node]; node = w->parents[node]) w->needed[node] = 1;
    descend(w, nodes, -1, -1);
    return DT_OK;
}

/* ---- nodes made ready ---------------------------------------------------------------------- */

typedef struct {
    forward *f;
    const dt_delta *shape;
    dt_delta_state *state;
    const dt_block *block;
    const float *begin; /* where the state is by now, or NULL: at its own place */
    float *end;         /* where it is left behind the last row, or NULL */
} layer;

/* What a node had for the convolution: kept, or the slice's own. */
static const float *seen(const layer *l, int32_t node)
{
    const dt_walk *w = l->f->walk;
    const int32_t row = node - w->taken - w->staged;
    return row < 0 ? dt_delta_row(l->state, l->state->past + node) : l->f->qkv + (int64_t)row * l->f->qkv_cols;
}

static int32_t above(const dt_walk *w, int32_t node)
{
    if (node < w->taken) return node - 1;
    const int32_t parent = parent_of(w, node - w->taken);
    return parent < 0 ? w->taken - 1 : w->taken + parent;
}

/* One head of q, k or v, which begins at a column. */
static void convolve_head(const layer *l, const float *const *rows, int32_t column, int32_t count, float *y)
{
    const float *from[MOST_WIDTH];
    for (int32_t t = 0; t < l->shape->width; t++) from[t] = rows[t] + column;
    l->f->kernels->convolve(from, l->shape->width, l->shape->convolution + column, channels(l->shape), count,
                            up(count), y);
}

/* A key head of a node, and the value heads that are as many parts of v as there are key heads. */
static void ready_head(void *context, int32_t index)
{
    const layer *l = context;
    const dt_delta *d = l->shape;
    const dt_walk *w = l->f->walk;
    const int32_t node = index / d->key_heads, head = index % d->key_heads, staged = node - w->taken;
    if (staged >= 0 && !w->needed[staged]) return;
    const float *rows[MOST_WIDTH];
    for (int32_t t = d->width - 1, at = node; t >= 0; t--, at = at < 0 ? at - 1 : above(w, at)) rows[t] = seen(l, at);
    const int32_t dim = d->key_dim, keys = d->key_heads * dim, width = up(dim), each = d->value_heads / d->key_heads;
    if (staged >= 0) {
        float *query = w->query + (int64_t)node * key_floats(d) + head * width;
        convolve_head(l, rows, head * dim, dim, query);
        l->f->kernels->unit(query, width, 1.0f / sqrtf((float)dim));
    }
    float *key = w->key + (int64_t)node * key_floats(d) + head * width;
    convolve_head(l, rows, keys + head * dim, dim, key);
    l->f->kernels->unit(key, width, 1.0f);
    for (int32_t h = head * each; h < (head + 1) * each; h++)
        convolve_head(l, rows, 2 * keys + h * d->value_dim, d->value_dim,
                      w->value + (int64_t)node * value_floats(d) + h * up(d->value_dim));
    if (head) return;
    const float *gates = rows[d->width - 1] + channels(d);
    const int64_t place = (int64_t)node * up(d->value_heads);
    l->f->kernels->delta_gates(gates, gates + d->value_heads, d->rate, d->dt_bias, d->value_heads, w->share + place,
                               w->decay + place);
}

/* ---- states and outputs -------------------------------------------------------------------- */

/* Sixteen columns of a value head through a node. */
static void step_block(const layer *l, int32_t node, int32_t head, int32_t column, const float *from, float *to,
                       float *out)
{
    const dt_delta *d = l->shape;
    const dt_walk *w = l->f->walk;
    const int32_t each = d->value_heads / d->key_heads, with = d->tiled ? head % d->key_heads : head / each;
    const int64_t key = (int64_t)node * key_floats(d) + with * up(d->key_dim);
    const int64_t gate = (int64_t)node * up(d->value_heads) + head;
    l->f->kernels->delta_step(from, to, up(d->key_dim), w->key + key, out ? w->query + key : NULL, w->decay[gate],
                              w->share[gate],
                              w->value + (int64_t)node * value_floats(d) + head * up(d->value_dim) + column, out);
}

/* Sixteen columns through all nodes. */
static void walk_block(const layer *l, int32_t head, int32_t column, float *state, float *buffers)
{
    const dt_delta *d = l->shape;
    const dt_walk *w = l->f->walk;
    const int32_t size = up(d->key_dim) * DT_LANES, left = d->value_dim - column;
    const int64_t place = state - l->state->state;
    float out[DT_LANES];
    if (l->begin) memcpy(state, l->begin + place, sizeof(float) * (size_t)size);
    for (int32_t node = 0; node < w->taken; node++) step_block(l, node, head, column, state, state, NULL);
    for (int32_t i = 0; i < w->visits; i++) {
        const visit *v = &w->visit[i];
        float *from = v->from < 0 ? state : buffers + (int64_t)v->from * size;
        float *to = v->to < 0 ? state : buffers + (int64_t)v->to * size;
        step_block(l, w->taken + v->node, head, column, from, to, out);
        const int32_t row = v->node - w->staged;
        if (row < 0) continue;
        memcpy(l->f->mixed + (int64_t)row * l->f->mixed_cols + head * d->value_dim + column, out,
               sizeof(float) * (size_t)(left < DT_LANES ? left : DT_LANES));
    }
    if (l->end) memcpy(l->end + place, buffers, sizeof(float) * (size_t)size);
}

/* y = norm(o) * silu(gate) */
static void gate_head(const layer *l, int32_t row, int32_t head)
{
    const dt_delta *d = l->shape;
    const int32_t dim = d->value_dim, padded = up(dim);
    float normed[MOST_DIM], gate[MOST_DIM];
    float *place = l->f->mixed + (int64_t)row * l->f->mixed_cols + head * dim;
    const float *from = l->f->qkv + (int64_t)row * l->f->qkv_cols + channels(d) + 2 * d->value_heads + head * dim;
    memset(normed + padded - DT_LANES, 0, sizeof(float) * DT_LANES);
    memset(gate + padded - DT_LANES, 0, sizeof(float) * DT_LANES);
    memcpy(normed, place, sizeof(float) * (size_t)dim), memcpy(gate, from, sizeof(float) * (size_t)dim);
    l->f->kernels->rms_norm(normed, d->norm, dim, padded, l->f->segment->norm_eps, normed);
    l->f->kernels->gated[DT_SILU](gate, normed, padded, normed);
    memcpy(place, normed, sizeof(float) * (size_t)dim);
}

/* Keeps the slice's rows behind the state, which is past the tokens that it took in. */
static void keep_rows(const layer *l)
{
    const dt_walk *w = l->f->walk;
    dt_delta_state *s = l->state;
    const int32_t cols = dt_delta_row_cols(&s->shape), past = l->shape->width - 1;
    const size_t bytes = sizeof(float) * (size_t)cols;
    memmove(s->rows, s->rows + (int64_t)w->taken * cols, bytes * (size_t)(past + w->staged));
    const int32_t first = w->eager ? l->f->rows - past : 0; /* such a slice is longer than what it leaves */
    float *to = s->rows + (int64_t)(w->eager ? 0 : past + w->staged) * cols;
    for (int32_t row = first; row < l->f->rows; row++, to += cols)
        memcpy(to, l->f->qkv + (int64_t)row * l->f->qkv_cols,
               sizeof(float) * (size_t)(channels(l->shape) + 2 * l->shape->value_heads));
}

/* A lane's heads; the task behind the last lane keeps the rows. */
static void walk_lane(void *context, int32_t lane)
{
    const layer *l = context;
    const dt_delta *d = l->shape;
    const dt_walk *w = l->f->walk;
    if (lane == LANES) {
        keep_rows(l);
        return;
    }
    const int64_t size = up(d->key_dim) * DT_LANES;
    float *buffers = w->buffer + lane * w->buffers * size;
    for (int32_t head = lane; head < d->value_heads; head += LANES) {
        float *state = l->state->state + (int64_t)head * up(d->key_dim) * up(d->value_dim);
        for (int32_t column = 0; column < d->value_dim; column += DT_LANES, state += size)
            walk_block(l, head, column, state, buffers);
        for (int32_t row = 0; row < l->f->rows; row++) gate_head(l, row, head);
    }
}

/* Goes on from the lead if that is of just the tokens that are to be taken in, and leaves another where the slice
 * does. */
static void follow_lead(layer *l)
{
    static _Atomic int64_t leads;
    dt_walk *w = l->f->walk;
    dt_delta_state *s = l->state;
    if (!w->next) {
        s->lead = 0;
        return;
    }
    int64_t *number = (int64_t *)(void *)w->next;
    float *lead = (float *)(void *)(w->next + LEAD_HEAD);
    if (w->taken && s->lead && s->lead == *number && s->lead_past == w->committed) {
        l->begin = lead;
        memmove(s->rows, s->rows + (int64_t)w->taken * dt_delta_row_cols(&s->shape), dt_delta_window_bytes(&s->shape));
        s->past = w->committed, w->taken = 0;
    }
    s->lead = 0;
    if (w->leading) {
        l->end = lead;
        s->lead = *number = atomic_fetch_add(&leads, 1) + 1, s->lead_past = w->committed + l->f->rows;
    }
    w->next += dt_delta_lead_bytes(&s->shape);
}

int32_t dt_mix_by_state(forward *f, const dt_block *block, dt_delta_state *state)
{
    dt_walk *w = f->walk;
    layer l = {.f = f, .shape = &block->delta, .state = state, .block = block};
    w->taken = w->committed - state->past;
    if (state->past > w->committed || w->taken > DT_MOST_ROWS) return DT_BAD_ARGUMENT;
    follow_lead(&l);
    dt_run(f->pool, ready_head, &l, (w->taken + w->staged + f->rows) * l.shape->key_heads);
    dt_run(f->pool, walk_lane, &l, LANES + 1);
    state->past = w->committed + (w->eager ? f->rows : 0);
    return DT_OK;
}
