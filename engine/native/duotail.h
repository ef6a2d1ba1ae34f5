/* The C ABI of Duotail's native CPU backend.
 *
 * One arithmetic: every function gives the same bits on every instruction set, for every number
 * of threads, and for a row alone as for a row among others. Hence no -ffast-math, contraction is
 * off, every sum has one written-down order, and exp is our own.
 */
#ifndef DUOTAIL_H
#define DUOTAIL_H

#include <stdint.h>

#if defined(_WIN32)
#define DT_API __declspec(dllexport)
#else
#define DT_API __attribute__((visibility("default")))
#endif

/* Weight blocks cover 16 rows of the matrix ("lanes") and 32 or 256 columns, but for floats, where a
 * block is 16 rows and one column. */
enum { DT_LANES = 16, DT_BLOCK = 32, DT_CHUNK = 64 };

/* Weight formats: ggml's, and what they consist of says formats.h. */
enum {
    DT_Q4 = 0, DT_Q8, DT_BF16, DT_F16, DT_F32, DT_Q4_1, DT_Q5_0, DT_Q5_1, DT_Q2_K, DT_Q3_K, DT_Q4_K,
    DT_Q5_K, DT_Q6_K, DT_IQ4_NL, DT_IQ4_XS, DT_MXFP4, DT_FORMATS
};

/* Instruction sets, x86's and ARM's, slowest first. */
enum {
    DT_PORTABLE = 0, DT_AVX2, DT_AVX_VNNI, DT_AVX512, DT_AMX_INT8, DT_NEON, DT_DOTPROD, DT_I8MM, DT_ISAS
};

/* Results of the fallible functions. */
enum { DT_OK = 0, DT_NO_MEMORY = -1, DT_BAD_ARGUMENT = -2, DT_CANCELLED = -3, DT_LOST_WEIGHTS = -5 };

/* A packed matrix [rows, cols]; `data` is 64-byte aligned and rows are padded to DT_LANES. */
typedef struct {
    const uint8_t *data;
    int32_t format, rows, cols;
} dt_matrix;

/* A gated feed-forward. Where a product has several matrices, they lie one below the other in what comes
 * out, and its bias, which may be NULL, is over all of it; matrices that are not needed have 0 rows. */
typedef struct {
    dt_matrix gate_up[2], down;
    const float *gate_up_bias, *down_bias;
} dt_mlp;

/* What the gate of a feed-forward goes through: see gated() in rows.h. */
enum { DT_SILU = 0, DT_GELU_TANH = 1, DT_SWIGLU_OAI = 2, DT_ACTIVATIONS = 3 };

/* A choice of `used` out of `count` experts, made per row. The shares of the chosen ones are a softmax
 * over them alone if `normalise`, else over all. One more expert behind them is `shared` by all rows, its
 * share the sigmoid of one more row of the router, which may be a matrix of its own. */
typedef struct {
    dt_matrix router[2];
    const float *router_bias;
    const dt_mlp *expert;
    int32_t count, used, intermediate, normalise, shared;
} dt_experts;

/* A gated delta layer, which mixes tokens by a state instead of keys and values: delta.c has the equations.
 * key_heads is 0 in a block that attends. */
typedef struct {
    int32_t key_heads, value_heads, key_dim, value_dim, width; /* width: tokens that a convolution sees */
    int32_t tiled;                     /* value head j goes with key head j % key_heads, not j / (how many each) */
    const float *convolution;          /* [width][channels], the oldest first; padded by DT_LANES to read */
    const float *rate, *dt_bias;       /* [value_heads]; rate: -exp(A_log) */
    const float *norm;                 /* [value_dim]; padded to DT_BLOCK as all norms */
} dt_delta;

enum { DT_PARTS = 4 }; /* matrices that a block's mixer begins with */

/* One decoder block; NULL where the model lacks a bias, norm or sinks. `in` is what its mixer begins with:
 * queries, keys and values; or of a delta layer q|k|v, then beta, alpha and the gate. */
typedef struct {
    dt_matrix in[DT_PARTS], out;
    const float *in_bias, *out_bias;
    const float *input_norm, *post_norm;    /* of what attention and feed-forward get; NULL: as it is */
    const float *attention_norm, *mlp_norm; /* of what they add */
    const float *query_norm, *key_norm;     /* of each head, [head_dim] */
    const float *sinks;                     /* [heads] logits that take part in the softmax and add nothing */
    int32_t heads, kv_heads, head_dim;      /* of attention */
    int32_t inner;                          /* numbers within mlp */
    int32_t kv_from;                        /* so many blocks before lie its keys and values; 0: it has its own */
    int32_t rope, window;                   /* one of the segment's, or -1; positions seen, or 0 for all */
    int32_t gated;                          /* each head's query is followed by a gate of what it attends to */
    float attention_scale;
    dt_delta delta;
    dt_mlp mlp;
    dt_experts experts;                     /* instead of mlp, unless count is 0 */
} dt_block;

/* How a feature head begins; engine.model.config.FusionSteps has the equation, of which a head leaves out the
 * matrices with 0 rows and the norms that are NULL. */
typedef struct {
    int32_t width;                  /* numbers of a token's features */
    int32_t gated;                  /* join decides between token and feature, and has the latter first */
    int32_t residual_normed;        /* without join: the first block adds to what feature_norm gives */
    int32_t returns_normed;         /* what comes out is final_norm of it, as of other models */
    dt_matrix feature, token, join;
    const float *token_norm, *feature_norm, *bias; /* bias: of join, or NULL */
} dt_fusion;

/* How the first `dim` numbers of each head are rotated: [positions, dim / 2]. */
typedef struct {
    const float *cosine, *sine;
    int32_t dim;
} dt_rope;

/* Types of keys and values: halves; or integers of 8 bits, of keys with a scale for every DT_BLOCK numbers
 * of a head, of values with one for a head's numbers. */
enum { DT_KV_F16 = 0, DT_KV_Q8 = 1, DT_KV_TYPES = 2 };

/* A run of decoder blocks. `embedding` and `head` have data == NULL where the segment lacks them. Softcaps
 * are 0 where there are none. A feature head has all of its blocks, both ends, and a fusion; what comes out
 * of it is not normed unless the fusion says so, and its logits are of final_norm of it if that is not NULL. */
typedef struct {
    int32_t blocks, hidden, activation, kv_type;
    float norm_eps, attention_softcap, logit_softcap, embedding_scale;
    const dt_block *block;
    dt_matrix embedding, head;
    const int32_t *ids; /* the token of each row of the head, see dt_rank; NULL: its number */
    const float *final_norm;
    const dt_rope *rope;
    const dt_fusion *fusion; /* NULL but for a feature head */
    uint8_t *scratch; /* for forwards, one at a time: dt_scratch_bytes of their rows, at a 64-byte border */
    int64_t scratch_bytes;
} dt_segment;

/* One forward over n rows; see engine.backend.segment.Step. paths == 0 means a chain. `slots` says where the
 * rows' own keys and values go; NULL: to first_slot and the slots behind it. Delta layers ask for the parents:
 * [staged + rows], as dt_forward_tree has them; NULL for a chain behind the committed tokens. */
typedef struct {
    int32_t rows, first_slot, paths, path_base, path_width, logit_count, tap_count;
    int32_t own; /* a feature head: hidden_in is what it put out itself, [rows, hidden] */
    int32_t committed, staged;
    const int32_t *parents, *tokens, *positions, *slots, *path_slots, *row_path, *logit_rows, *taps;
    const float *hidden_in; /* [rows, hidden], NULL for the first segment; [rows, width] for a head */
    float *hidden_out;      /* [rows, hidden] */
    float *logits;          /* [logit_count, vocab] or NULL */
    float *tap_out;         /* [tap_count, rows, hidden] */
    const volatile int32_t *cancel; /* NULL, or looked at between blocks: not 0 gives the forward up */
} dt_step;

typedef struct dt_pool dt_pool;
typedef struct dt_cache dt_cache;

/* Raise it whenever a function's arguments, or the meaning of a structure's members, change. */
enum { DT_ABI_VERSION = 9 };

/* What this library was compiled with: DT_ABI_VERSION, how many sizes follow, and the sizes in bytes of
 * dt_matrix, dt_mlp, dt_experts, dt_delta, dt_block, dt_rope, dt_fusion, dt_segment, dt_step, dt_sampling,
 * dt_verification, dt_drafting and dt_candidate. A caller that has others must not call anything else. */
DT_API const int32_t *dt_abi(void);

/* Instruction sets: a bit for each that the processor, the system and the compiler have; whether one is among them and
 * was built, the best of those, and which one is in use. */
DT_API uint32_t dt_processor_isas(void);
DT_API int32_t dt_has_isa(int32_t isa);
DT_API int32_t dt_best_isa(void);
DT_API int32_t dt_use_isa(int32_t isa);
DT_API int32_t dt_current_isa(void);

/* Threads. The caller's thread works too, so a pool of 1 starts none. */
DT_API dt_pool *dt_pool_new(int32_t threads);
DT_API void dt_pool_free(dt_pool *pool);

/* Bytes that a packed matrix takes (pack.h makes them), and one row of it as fp32. */
DT_API int64_t dt_packed_bytes(int32_t format, int32_t rows, int32_t cols);
DT_API void dt_unpack_row(const dt_matrix *matrix, int32_t row, float *out);

/* Keys and values of one sequence, of the segment's kv_type, and the states of its delta layers; zeroed lazily
 * by the system. A state belongs to the first tokens; what came behind is kept row by row, for as many rows as
 * a forward computes together, and goes into the state when a forward is told that it is committed. */
DT_API dt_cache *dt_cache_new(const dt_segment *segment, int32_t slots);
DT_API void dt_cache_free(dt_cache *cache);
DT_API int64_t dt_cache_bytes(const dt_segment *segment, int32_t slots);
DT_API int64_t dt_cache_touched(const dt_cache *cache); /* of them, by now */
DT_API void dt_cache_copy(dt_cache *cache, const dt_cache *other, int32_t slots);
DT_API void dt_cache_move(dt_cache *cache, const int32_t *sources, int32_t count, int32_t target);

/* Delta layers: the tokens that the states are past, which no forward and no copy can go back behind. A snapshot
 * is the states at `committed` tokens, dt_snapshot_bytes of them; NULL is the state of an empty sequence.
 * dt_snapshot returns what dt_forward does. */
DT_API int32_t dt_cache_past(const dt_cache *cache);
DT_API int64_t dt_snapshot_bytes(const dt_segment *segment);
DT_API int32_t dt_snapshot(dt_pool *pool, const dt_segment *segment, dt_cache *cache, int32_t committed, uint8_t *to);
DT_API void dt_restore(dt_cache *cache, int32_t committed, const uint8_t *from);

/* Scratch memory of a forward over so many rows; longer ones take no more than DT_MOST_ROWS do. */
DT_API int64_t dt_scratch_bytes(const dt_segment *segment, int32_t rows);

/* The forward. Returns DT_OK, DT_BAD_ARGUMENT, DT_NO_MEMORY where the scratch memory is too small, or
 * DT_CANCELLED or DT_LOST_WEIGHTS (see mapped.h), after which nothing that it was to write holds anything
 * of worth. */
DT_API int32_t dt_forward(dt_pool *pool, const dt_segment *segment, dt_cache *cache,
                          const dt_step *step);

/* One operation of the kernels on 16 numbers each, for tests; y [16], all the same where it is one number. */
enum {
    DT_LANES_ADD = 0, DT_LANES_MUL, DT_LANES_DIV, DT_LANES_FMA, DT_LANES_MAX, DT_LANES_MIN, DT_LANES_SUM,
    DT_LANES_TOP, DT_LANES_ROUND, DT_LANES_EXP, DT_LANES_HALF
};
DT_API void dt_lanes(int32_t operation, const float *a, const float *b, const float *c, float *y);

/* One product, for tests and benchmarks: y [m, rows] = x [m, cols] * matrix^T. */
DT_API int32_t dt_matmul(dt_pool *pool, const dt_matrix *matrix, const float *x, int32_t m, float *y);

#endif
