/* A forward on its way, as its parts share it. */
#ifndef DUOTAIL_FORWARD_H
#define DUOTAIL_FORWARD_H

#include "cache.h"

enum {
    SLICE = DT_MOST_ROWS, /* a longer prefill goes in slices */
    MOST_DIM = 512,       /* of a head */
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

/* attend.c: rows of the slice that share a path, together; once per slice. */
void dt_group_rows(forward *f);

/* attend.c: keys and values of the slice into the cache, then qkv to mixed. */
void dt_attend(forward *f);

#endif
