/* Drawing, verifying and ranking tokens: the second part of the C ABI, beside duotail.h.
 *
 * A draw is a pure function of (logits, tokens so far, parameters, position), the same on every
 * instruction set and for every number of threads, and the same as in engine/speculative/sampler.py.
 */
#ifndef DUOTAIL_SAMPLE_H
#define DUOTAIL_SAMPLE_H

#include "duotail.h"

/* Result beside those of duotail.h: NaN among the logits, or no finite best one that is allowed. */
enum { DT_INVALID_LOGITS = -4 };

/* How tokens are drawn; see engine.request.SamplingParams. temperature == 0: the best one. */
typedef struct {
    double temperature, top_p, min_p, repetition, presence, frequency;
    uint64_t seed;
    int32_t top_k;
    int32_t answer_start; /* position from which presence and frequency penalties count tokens */
    int32_t share_noise;  /* whether dt_rank adds the noise of the draws */
    int32_t shift;        /* dt_rank adds it to positions: tokens before those that a draft has read */
    int32_t constrained;  /* whether verifications say which tokens are allowed */
    int32_t biased;       /* how many tokens have something added to their logits, before penalties */
    const int32_t *bias_tokens; /* [biased] of the vocabulary, each once; they and their bias outlive the sampler */
    const float *bias;
} dt_sampling;

/* Most tokens that dt_rank gives for a row, and most tokens of a vocabulary. */
enum { DT_MOST_WIDTH = 64, DT_MOST_VOCAB = 1 << 22 };

/* A token that a draft holds likely, and the log of its probability. */
typedef struct {
    int32_t token;
    float weight;
} dt_candidate;

/* The `width` likeliest tokens of each row of logits [rows, vocab], best first, as
 * log softmax(logits / temperature + the noise of `position`); without the noise where it is not
 * shared, and of the bare logits when greedy. A draft that equals the target ranks the target's
 * own draw first. `ids` [vocab], padded to 64: the tokens that the logits are of, ascending; NULL: each
 * of its own number. out is [rows, width]; where a row has fewer numbers than that, token is -1 and
 * weight -infinity. `pool` may be NULL: the calling thread alone. Takes no memory.
 * Returns DT_OK or DT_BAD_ARGUMENT. */
DT_API int32_t dt_rank(dt_pool *pool, const dt_sampling *sampling, const float *logits, int32_t rows,
                       int32_t vocab, const int32_t *ids, int32_t position, int32_t width, dt_candidate *out);

/* The target's draws in one answer: its parameters, the tokens that penalties count, scratch. */
typedef struct dt_sampler dt_sampler;

/* It lies in `memory`: dt_sampler_bytes zero bytes, at a 64-byte border. NULL, and less than 0 bytes, for
 * a vocabulary that is too large. */
DT_API int64_t dt_sampler_bytes(const dt_sampling *sampling, int32_t vocab);
DT_API dt_sampler *dt_sampler_new(const dt_sampling *sampling, int32_t vocab, uint8_t *memory);

/* Count the committed tokens that follow those counted so far, for the penalties. */
DT_API void dt_sampler_commit(dt_sampler *sampler, const int32_t *tokens, int32_t count);
DT_API void dt_sampler_clear(dt_sampler *sampler);

/* Sample-then-match over a tree whose node 0 is the last committed token; a chain is a tree, and
 * one node is a plain draw. See engine.speculative.verify. */
typedef struct {
    int32_t nodes, position, limit, stop_count; /* position: of the first token drawn */
    const int32_t *tokens, *parents, *stop_ids; /* parents come before their children */
    const float *logits;                        /* [nodes, vocab] */
    int32_t *path, *drawn;                      /* out, [nodes] each: nodes that stay, draws */
    int32_t length, accepted, offered;          /* out: of both; drafted draws; depths on offer */
    float *chances; /* out, [nodes + 1]: softmax(logits) of each draw and, behind the last one, of the first
                     * token drafted in its place if it is none of those, else -1. NULL: not wanted */
    /* Of a constrained sampler: the tokens that may follow `drawn` [length], a bit each, the lowest first, valid
     * until the next call; at least one. NULL ends the verification: it has failed. */
    const uint32_t *(*allowed)(const int32_t *drawn, int32_t length);
} dt_verification;

/* Returns DT_OK, DT_BAD_ARGUMENT or DT_INVALID_LOGITS. `pool` may be NULL. */
DT_API int32_t dt_verify(dt_pool *pool, dt_sampler *sampler, dt_verification *verification);

#endif
