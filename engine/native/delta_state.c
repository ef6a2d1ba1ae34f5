/* The states of gated delta layers in memory: where they lie, moved, copied, and kept for later. */
#include "delta.h"

#include <string.h>

enum { BROKEN = INT32_MAX /* the state is that of no sequence */ };

int64_t dt_delta_floats(const dt_delta *d) { return (int64_t)d->value_heads * up(d->key_dim) * up(d->value_dim); }

int32_t dt_delta_row_cols(const dt_delta *d) { return up(channels(d) + 2 * d->value_heads); }

size_t dt_delta_window_bytes(const dt_delta *d)
{
    return sizeof(float) * (size_t)(d->width - 1) * (size_t)dt_delta_row_cols(d);
}

int64_t dt_delta_bytes(const dt_delta *d)
{
    const int64_t rows = d->width - 1 + DT_MOST_ROWS;
    return (int64_t)sizeof(float) * (dt_delta_floats(d) + rows * dt_delta_row_cols(d) + DT_LANES);
}

dt_delta_state dt_delta_begin(const dt_delta *d, uint8_t *place)
{
    float *state = (float *)(void *)place;
    return (dt_delta_state){.shape = *d, .state = state, .rows = state + dt_delta_floats(d)};
}

int64_t dt_delta_lead_bytes(const dt_delta *d) { return LEAD_HEAD + (int64_t)sizeof(float) * dt_delta_floats(d); }

float *dt_delta_row(const dt_delta_state *s, int32_t position)
{
    return s->rows + (int64_t)(s->shape.width - 1 + position - s->past) * dt_delta_row_cols(&s->shape);
}

static int is_kept(const dt_delta_state *s, int32_t position)
{
    return position >= s->past && position < s->past + DT_MOST_ROWS;
}

void dt_delta_move(dt_delta_state *s, const int32_t *sources, int32_t count, int32_t target)
{
    s->lead = 0;
    for (int32_t i = 0; i < count; i++) {
        if (!is_kept(s, sources[i]) || !is_kept(s, target + i)) {
            s->past = BROKEN; /* whoever moves such rows did not compute them here */
            return;
        }
        memmove(dt_delta_row(s, target + i), dt_delta_row(s, sources[i]),
                sizeof(float) * (size_t)dt_delta_row_cols(&s->shape));
    }
}

void dt_delta_copy(dt_delta_state *s, const dt_delta_state *other)
{
    memcpy(s->state, other->state, (size_t)dt_delta_bytes(&s->shape));
    s->past = other->past, s->lead = 0;
}

int64_t dt_delta_snapshot_bytes(const dt_delta *d)
{
    return (int64_t)sizeof(float) * dt_delta_floats(d) + (int64_t)dt_delta_window_bytes(d);
}

void dt_delta_save(const dt_delta_state *s, uint8_t *to)
{
    memcpy(to, s->state, (size_t)dt_delta_snapshot_bytes(&s->shape));
}

void dt_delta_load(dt_delta_state *s, int32_t past, const uint8_t *from)
{
    if (from) memcpy(s->state, from, (size_t)dt_delta_snapshot_bytes(&s->shape));
    else memset(s->state, 0, (size_t)dt_delta_snapshot_bytes(&s->shape));
    s->past = past, s->lead = 0;
}
