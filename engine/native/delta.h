/* The states of a sequence's gated delta layers, as the cache and the forwards see them. */
#ifndef DUOTAIL_DELTA_H
#define DUOTAIL_DELTA_H

#include "internal.h"

/* A layer: its state after the first `past` tokens, and rows that came behind. */
typedef struct {
    dt_delta shape;
    float *state; /* [value_heads][value_dim / 16][key_dim][16], both padded to 16 */
    float *rows;  /* [width - 1 + DT_MOST_ROWS][row_cols]: what the convolution saw, beta, alpha; by position */
    int32_t past;
} dt_delta_state;

/* Numbers of a state, and of a row that is kept. */
int64_t dt_delta_floats(const dt_delta *d);
int32_t dt_delta_row_cols(const dt_delta *d);

/* Bytes of a layer; where one begins to lie, with its memory at `place`. */
int64_t dt_delta_bytes(const dt_delta *d);
dt_delta_state dt_delta_begin(const dt_delta *d, uint8_t *place);

/* Rows of staged tokens to the places of others, as keys are moved. */
void dt_delta_move(dt_delta_state *s, const int32_t *sources, int32_t count, int32_t target);

/* The state and rows of another sequence's layer. */
void dt_delta_copy(dt_delta_state *s, const dt_delta_state *other);

/* A snapshot: the state and the last rows that a convolution will see. */
int64_t dt_delta_snapshot_bytes(const dt_delta *d);
void dt_delta_save(const dt_delta_state *s, uint8_t *to);
void dt_delta_load(dt_delta_state *s, int32_t past, const uint8_t *from);

#endif
