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
    int64_t lead;      /* which lead of the segment's is of this sequence; 0: none, and where it is, in tokens */
    int32_t lead_past;
} dt_delta_state;

enum { LEAD_HEAD = 64 /* bytes before a lead: its number */ };

static inline int32_t up(int32_t count) { return dt_round_up(count, DT_LANES); }

static inline int32_t channels(const dt_delta *d)
{
    return 2 * d->key_heads * d->key_dim + d->value_heads * d->value_dim;
}

/* Numbers of a state, and of a row that is kept. */
int64_t dt_delta_floats(const dt_delta *d);
int32_t dt_delta_row_cols(const dt_delta *d);

/* Bytes of the rows that a convolution sees before the next; where the row at a position is kept. */
size_t dt_delta_window_bytes(const dt_delta *d);
float *dt_delta_row(const dt_delta_state *s, int32_t position);

/* Bytes of a layer; where one begins to lie, with its memory at `place`. */
int64_t dt_delta_bytes(const dt_delta *d);
dt_delta_state dt_delta_begin(const dt_delta *d, uint8_t *place);

/* Bytes of a lead: the state behind the rows of the last long chain, should all of them be committed. */
int64_t dt_delta_lead_bytes(const dt_delta *d);

/* Rows of staged tokens to the places of others, as keys are moved. */
void dt_delta_move(dt_delta_state *s, const int32_t *sources, int32_t count, int32_t target);

/* The state and rows of another sequence's layer. */
void dt_delta_copy(dt_delta_state *s, const dt_delta_state *other);

/* A snapshot: the state and the last rows that a convolution will see. */
int64_t dt_delta_snapshot_bytes(const dt_delta *d);
void dt_delta_save(const dt_delta_state *s, uint8_t *to);
void dt_delta_load(dt_delta_state *s, int32_t past, const uint8_t *from);

#endif
