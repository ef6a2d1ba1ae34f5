/* A forward on its way, as its parts share it. */
#ifndef DUOTAIL_FORWARD_H
#define DUOTAIL_FORWARD_H

#include "cache.h"

enum {
    SLICE = DT_MOST_ROWS, /* a longer prefill goes in slices */
    MOST_DIM = 512,       /* of a head */
    MOST_PARTS = 3,       /* matrices with one output */
};

/* Rows of one slice that attend along the same path. */
typedef struct { int32_t path, first, count; } group;

typedef struct {
    dt_pool *pool;
    const dt_kernels *kernels;
    const dt_segment *segment;
    const dt_step *step;
    dt_cache *cache;
    int32_t start, rows;                 /* the slice */
    int32_t hidden, mixed_cols, inner;   /* padded to DT_BLOCK */
    int32_t qkv_cols, dim, block_index;
    float *x, *normed, *qkv, *query, *mixed, *gate_up, *act; /* [SLICE][...] */
    dt_quantised *quantised;
    int8_t *spread;
    int32_t order[SLICE];                /* rows, grouped by path */
    group groups[SLICE];
    int32_t group_count;
} forward;

/* One matrix of a product. */
typedef struct {
    const dt_matrix *matrix;
    dt_activations x;
    dt_output out;
} dt_product;

/* project.c: all products at once; threads claim rows of the matrices, whichever they belong to. */
void dt_multiply(dt_pool *pool, const dt_kernels *kernels, const dt_product *products, int32_t count);

/* project.c: makes x [rows, cols] ready for products with the matrices; if gated, computes it first. */
void dt_prepare(forward *f, const dt_matrix *matrices, int32_t count, float *x, int32_t rows,
                int32_t cols, int gated);

/* project.c: x * matrix^T of activations made ready; one matrix below the other in the output. */
void dt_project(forward *f, const dt_matrix *matrices, int32_t count, const float *x, int32_t rows,
                int32_t cols, dt_output out);

/* attend.c: rows of the slice that share a path, together; once per slice. */
void dt_group_rows(forward *f);

/* attend.c: keys and values of the slice into the cache, then qkv to mixed. */
void dt_attend(forward *f);

#endif
