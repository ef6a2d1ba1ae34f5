/* A forward on its way, as its parts share it. */
#ifndef DUOTAIL_FORWARD_H
#define DUOTAIL_FORWARD_H

#include "cache.h"
#include "delta.h"

enum {
    SLICE = DT_MOST_ROWS, /* a longer prefill goes in slices */
    MOST_DIM = 512,       /* of a head */
    MOST_PARTS = DT_PARTS, /* matrices with one output */
};

/* Rows of one slice that attend together. */
typedef struct { int32_t first, count; } group;

/* Matrices of one product. */
typedef struct {
    const dt_matrix *matrix;
    int32_t count;
} dt_matrices;

/* Where rows of a slice go among experts. */
typedef struct dt_mixture dt_mixture;

/* How a slice's rows go through the states of delta layers. */
typedef struct dt_walk dt_walk;

typedef struct {
    dt_pool *pool;
    const dt_kernels *kernels;
    const dt_segment *segment;
    const dt_step *step;
    dt_cache *cache;
    int32_t start, rows;                 /* the slice */
    int32_t hidden, mixed_cols, inner;   /* padded to DT_BLOCK */
    int32_t qkv_cols, query_cols;        /* query_cols: most numbers of a row's queries, padded like dim */
    const dt_block *block;               /* the one that computes; inner and mixed_cols are its own */
    const dt_kept *kept;                 /* where its keys and values lie */
    int32_t dim, delta_layer;            /* its padded head; those before it that have a state */
    int32_t feature_cols, wide_cols;     /* padded too; 0 but for feature heads */
    float *x, *normed, *qkv, *query, *mixed, *gate_up, *act; /* [SLICE][...] */
    float *attended, *scales; /* [SLICE][heads]: of [dim] what was mixed; of queries as words */
    int16_t *words;           /* [SLICE][heads][dim] */
    float *features, *wide; /* [SLICE][...]: a head's, and what its fusion has side by side */
    dt_quantised *quantised;
    int8_t *spread;
    int32_t order[SLICE];                /* rows, path after path */
    group groups[SLICE];
    int32_t group_count, grouped[2];     /* for blocks with so many heads of queries, and of keys */
    dt_matrices next;                    /* the product after the one that comes, if that is known */
    dt_mixture *mixture;                 /* NULL where no block has experts */
    dt_walk *walk;                       /* NULL where all blocks attend */
} forward;

/* ---- project.c ------------------------------------------------------------------------------ */

/* One matrix of a product. */
typedef struct {
    const dt_matrix *matrix;
    dt_activations x;
    dt_output out;
} dt_product;

/* Whether any of the matrices is multiplied with quantised activations, and with floats. */
int dt_takes_quantised(const dt_matrix *matrices, int32_t count);
int dt_takes_floats(const dt_matrix *matrices, int32_t count);

/* Products with matrices that lie one below the other in the output; returns how many. */
int32_t dt_line_up(const dt_matrix *matrices, int32_t count, dt_activations x, dt_output out,
                   dt_product *products);

/* All products at once: threads claim rows of the matrices, whichever they belong to. */
void dt_multiply(forward *f, const dt_product *products, int32_t count);

/* Makes x [rows, cols] ready for products with the matrices; if gated, computes it first. */
void dt_prepare(forward *f, const dt_matrix *matrices, int32_t count, float *x, int32_t rows,
                int32_t cols, int gated);

/* x * matrix^T of activations made ready, one matrix below the other in the output. */
void dt_project(forward *f, const dt_matrix *matrices, int32_t count, const float *x, int32_t rows,
                int32_t cols, dt_output out);

/* ---- fusion.c ------------------------------------------------------------------------------- */

/* Tokens and features of the slice to x. */
void dt_fuse(forward *f);

/* Whether block 0 attends over what lies in `wide`. */
static inline int dt_attends_wide(const dt_segment *segment)
{
    return segment->fusion && !segment->fusion->join.rows;
}

/* ---- attend.c ------------------------------------------------------------------------------- */

/* Keys and values of the slice into the cache, then qkv to mixed. */
void dt_attend(forward *f);

/* ---- delta.c -------------------------------------------------------------------------------- */

/* Lays f->walk out for slices of so many rows, if the segment has delta layers; returns its size, also without
 * memory. Nothing of it has to be zero. */
int64_t dt_lay_out_walk(forward *f, int32_t rows, uint8_t *base);

/* Bytes of what long chains lead to, which lies behind all else in the scratch memory and stays from one forward to
 * the next; 0 for few rows. The other finds its place, if there is room behind `used` bytes. */
int64_t dt_lay_out_leads(const dt_segment *segment, int32_t rows);
void dt_place_leads(forward *f, int64_t used);

/* How the slice's rows hang together; DT_BAD_ARGUMENT where a state cannot follow them: more rows of a tree than
 * are kept, or several sequences. Once per slice. */
int32_t dt_plan_walk(forward *f);

/* qkv to mixed, as dt_attend does. DT_BAD_ARGUMENT where the state is past tokens that are not committed. */
int32_t dt_mix_by_state(forward *f, const dt_block *block, dt_delta_state *state);

/* ---- experts.c ------------------------------------------------------------------------------ */

/* Lays f->mixture out for slices of so many rows, if the segment has experts; returns its size, also
 * without memory. */
int64_t dt_lay_out_mixture(forward *f, int32_t rows, uint8_t *base);

/* The mixture of experts: what the rows' experts make of `normed`. */
void dt_moe(forward *f, const dt_experts *experts, dt_output out);

#endif
