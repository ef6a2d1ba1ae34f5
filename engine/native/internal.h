/* What the sources of the native backend share. */
#ifndef DUOTAIL_INTERNAL_H
#define DUOTAIL_INTERNAL_H

#include "duotail.h"
#include "formats.h"

#include <stddef.h>

enum {
    DT_MOST_ROWS = 64, /* rows that a forward computes together */
    DT_TILE_ROWS = 16, /* activation rows that lie side by side */
};

/* 32 columns of up to 16 activation rows in int8, side by side, so that a product walks one pointer; and what products
 * need to know of a row's 32 numbers beside themselves. x ~ q * scale. A format reads few of these, and what it does
 * not read takes no place in the caches. */
typedef struct {
    int8_t q[DT_TILE_ROWS][DT_BLOCK];
    float scale[DT_TILE_ROWS];
    float total[DT_TILE_ROWS], of_half[DT_TILE_ROWS][2]; /* sums of q times scale: of all, of q[0..15], of q[16..31] */
    int32_t start[DT_TILE_ROWS];                         /* -8 * sum of q, which takes the bias of 4-bit codes back */
    int16_t less[DT_TILE_ROWS][2];                       /* -1 * sums of the same halves */
    int16_t less_by_pairs[DT_TILE_ROWS][2][2]; /* of each half -32 * sum of the first two of every four q, of the others */
} dt_quantised;

/* Rows 0-7 once more for tiles, between zeros. For 64 columns each: [16][64], where row r holds the
 * first 32 columns and row 8 + r the second ones, at their place; and two [16][32], the same by 16. */
enum { DT_SPREAD = 2048 };
static inline int64_t dt_spread_bytes(int32_t cols) { return ((int64_t)cols + 63) / 64 * DT_SPREAD; }

/* Activation rows: as they are (float weights), and quantised, [rows / 16][cols / 32]. */
typedef struct {
    const float *raw;
    const dt_quantised *quantised;
    const int8_t *spread;
    int32_t rows, cols, stride; /* cols is a multiple of DT_BLOCK; stride is that of raw */
} dt_activations;

/* Where a product goes: y [rows, stride]; bias may be NULL; add keeps what is there. */
typedef struct {
    float *y;
    const float *bias;
    int32_t stride, add;
} dt_output;

/* Keys [from, to) of a chunk that a row sees. */
typedef struct { int32_t from, to; } dt_span;

/* Keys and values of one head in DT_CHUNK slots; cache.c says how they lie. */
typedef struct { uint16_t *keys, *values; } dt_chunk;

/* One head of a query, scaled: as it is, and with keys of DT_KV_Q8 as words * scale. */
typedef struct {
    const float *x;
    const int16_t *words;
    float scale;
} dt_query;

typedef struct {
    void (*quantise)(const float *x, int32_t row, int32_t cols, int32_t from, int32_t to,
                     dt_quantised *out, int8_t *spread);
    void (*multiply)(const dt_matrix *matrix, const dt_activations *x, const dt_output *out,
                     int32_t from, int32_t to);
    void (*rms_norm)(const float *x, const float *weight, int32_t cols, int32_t padded, float eps,
                     float *y);
    void (*silu)(float *x, int32_t count);
    void (*blend)(const float *gate, const float *a, const float *b, int32_t count, float *y);
    void (*gated[DT_ACTIVATIONS])(const float *gate, const float *up, int32_t count, float *y);
    void (*exponentials)(float *x, int32_t count);
    void (*convolve)(const float *const *rows, int32_t width, const float *weights, int32_t stride, int32_t count,
                     int32_t padded, float *y);
    void (*unit)(float *x, int32_t count, float scale);
    void (*delta_gates)(const float *beta, const float *alpha, const float *rate, const float *bias, int32_t count,
                        float *share, float *decay);
    void (*delta_step)(const float *from, float *to, int32_t dim, const float *key, const float *query, float decay,
                       float share, const float *value, float *out);
    void (*softcap)(float *x, int32_t count, float cap);
    void (*to_half)(const float *x, int32_t count, uint16_t *y);
    uint16_t (*to_bytes)(const float *x, int32_t count, int8_t *bytes);
    float (*to_words)(const float *x, int32_t count, int16_t *words);
    void (*attend_chunk[DT_KV_TYPES])(dt_chunk chunk, const void *next, int32_t dim,
                                      const dt_query *query, const dt_span *visible, int32_t rows,
                                      float cap, float *peak, float *total, float *const *mixed);
    void (*lanes)(int32_t operation, const float *a, const float *b, const float *c, float *y);
} dt_kernels;

/* DT_BUILD: a bit for each instruction set that is to be built (duotail.h numbers them), all by default. A build for
 * one processor leaves out what that one does not use; packaging/native_library.py says which. */
#ifndef DT_BUILD
#define DT_BUILD 0xff
#endif

/* Tiles need Linux's leave to use them, and a compiler that knows them, as AVX-VNNI does. */
#if defined(__x86_64__)
#define DT_KNOWS_AVX_VNNI (__GNUC__ >= 11 || __clang_major__ >= 12)
#if defined(__linux__)
#define DT_KNOWS_AMX DT_KNOWS_AVX_VNNI
#endif
#define DT_HAS_AVX2 (DT_BUILD >> 1 & 1)
#define DT_HAS_AVX_VNNI (DT_KNOWS_AVX_VNNI && DT_BUILD >> 2 & 1)
#define DT_HAS_AVX512 (DT_BUILD >> 3 & 1)
#define DT_HAS_AMX (DT_KNOWS_AMX && DT_BUILD >> 4 & 1)
#elif defined(__aarch64__)
#define DT_HAS_NEON (DT_BUILD >> 5 & 1)
#define DT_HAS_DOTPROD (DT_BUILD >> 6 & 1)
#define DT_HAS_I8MM (DT_BUILD >> 7 & 1)
#endif

/* What the sampler and the packers have of their own; the sets above them use it as well. */
#define DT_HAS_256 (DT_HAS_AVX2 || DT_HAS_AVX_VNNI)
#define DT_HAS_512 (DT_HAS_AVX512 || DT_HAS_AMX)
#define DT_HAS_128 (DT_HAS_NEON || DT_HAS_DOTPROD || DT_HAS_I8MM)

extern const dt_kernels dt_kernels_portable, dt_kernels_avx2, dt_kernels_avx_vnni, dt_kernels_avx512, dt_kernels_amx,
    dt_kernels_neon, dt_kernels_dotprod, dt_kernels_i8mm;

/* All that is compiled once per instruction set: the forward's kernels, the sampler's (draw.h), the
 * packers of weights (pack_job.h). */
typedef struct {
    const dt_kernels *forward;
    const struct dt_draw_kernels *draw;
    const struct dt_packers *pack;
} dt_isa_table;

/* The table of the instruction set in use. */
const dt_isa_table *dt_active(void);

/* Bytes of 16 packed rows. */
int64_t dt_block_row_bytes(int32_t format, int32_t cols);

/* Threads of the pool, the caller's included. */
int32_t dt_threads(const dt_pool *pool);

/* Run task(context, index) for every index in [0, count), on all threads; returns when all are
 * done. Thread t of T begins at count * t / T. Work is claimed one index at a time, so a preempted thread
 * does not stall the others. Where another thread's job is under way, the caller computes alone. */
typedef void dt_task(void *context, int32_t index);
void dt_run(dt_pool *pool, dt_task *task, void *context, int32_t count);

/* Tell what this thread will read in a job to come: it fetches that while it waits. */
void dt_expect(const void *data, int64_t bytes);

static inline int32_t dt_round_up(int32_t value, int32_t step)
{
    return (value + step - 1) / step * step;
}

/* Lays arrays out one behind the other, each at a 64-byte border and with 64 bytes to read past its end.
 * Without a base it only counts. */
static inline void *dt_lay(uint8_t *base, int64_t *used, int64_t count, size_t size)
{
    void *place = base ? base + *used : NULL;
    *used += (count * (int64_t)size + 127) / 64 * 64;
    return place;
}

#endif
