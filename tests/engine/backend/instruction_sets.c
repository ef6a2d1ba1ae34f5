/* Hashes of what the native library computes, one line for each part and instruction set of this processor.
 *
 * Built together with engine/native for this processor and for others, whose lines have to agree:
 *     avx2 products.Q4_0 9f86d081884c7d65
 * Beside it, what does not depend on the instruction set is compared here: rows alone and among others,
 * numbers of threads, chunks of a prompt. All input is made from integers, so that it is the same everywhere.
 */
#include "draw.h"
#include "pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[DT_ISAS] = {"portable", "avx2", "avx512", "amx", "neon", "dotprod", "i8mm"};
static const char *isa_name;

/* ---- numbers in, hashes out ---------------------------------------------------------------- */

static uint64_t state;

static uint32_t bits(void) /* splitmix64 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32);
}

/* In -size..size. */
static float number(float size) { return ((float)(int32_t)(bits() >> 8) * 0x1p-23f - 1.0f) * size; }

static float *numbers(int64_t count, float size)
{
    float *x = aligned_alloc(64, (size_t)(count * 4 + 127) / 64 * 64);
    for (int64_t i = 0; i < count; i++) x[i] = number(size);
    return x;
}

static void *room(int64_t bytes)
{
    const size_t whole = (size_t)(bytes + 127) / 64 * 64;
    return memset(aligned_alloc(64, whole), 0, whole);
}

static uint64_t hash;

static void add_bytes(const void *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
}

/* All NaNs are one: their bits differ between processors. */
static void add_floats(const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float same = x[i] == x[i] ? x[i] : 0x1.8p127f;
        add_bytes(&same, 4);
    }
}

static void begin(uint64_t seed) { state = seed, hash = 0xcbf29ce484222325u; }

static void tell(const char *part, const char *of)
{
    printf("%s %s%s%s %016llx\n", isa_name, part, *of ? "." : "", of, (unsigned long long)hash);
    fflush(stdout);
}

static void check(int fine, const char *claim)
{
    if (fine) return;
    fprintf(stderr, "%s: not so: %s\n", isa_name, claim);
    exit(1);
}

/* ---- weights ------------------------------------------------------------------------------- */

/* ggml's blocks: bytes, and where their fp16 scales are. */
static const struct { const char *name; int16_t bytes, d, m; } stored[DT_FORMATS] = {
    [DT_Q4] = {"Q4_0", 18, 0, 0},       [DT_Q8] = {"Q8_0", 34, 0, 0},      [DT_BF16] = {"BF16", 0, 0, 0},
    [DT_F16] = {"F16", 0, 0, 0},        [DT_F32] = {"F32", 0, 0, 0},       [DT_Q4_1] = {"Q4_1", 20, 0, 2},
    [DT_Q5_0] = {"Q5_0", 22, 0, 0},     [DT_Q5_1] = {"Q5_1", 24, 0, 2},    [DT_Q2_K] = {"Q2_K", 84, 80, 82},
    [DT_Q3_K] = {"Q3_K", 110, 108, 108}, [DT_Q4_K] = {"Q4_K", 144, 0, 2},  [DT_Q5_K] = {"Q5_K", 176, 0, 2},
    [DT_Q6_K] = {"Q6_K", 210, 208, 208}, [DT_IQ4_NL] = {"IQ4_NL", 18, 0, 0}, [DT_IQ4_XS] = {"IQ4_XS", 136, 0, 0},
    [DT_MXFP4] = {"MXFP4", 17, 0, 0},
};

static void make_scale(uint8_t *p)
{
    const uint16_t half = (uint16_t)((bits() & 0x83ff) | (8 + bits() % 5) << 10);
    memcpy(p, &half, 2);
}

/* Blocks in which everything is random, also the largest and the smallest codes. */
static uint8_t *random_blocks(int32_t format, int64_t count)
{
    const int32_t size = stored[format].bytes;
    uint8_t *blocks = room(count * size), *block = blocks;
    for (int64_t b = 0; b < count; b++, block += size) {
        for (int32_t i = 0; i < size; i++) block[i] = (uint8_t)bits();
        if (b % 5 == 4) memset(block, b % 2 ? 255 : 0, (size_t)size);
        if (b % 7 == 6) memset(block, 128, (size_t)size);
        make_scale(block + stored[format].d), make_scale(block + stored[format].m);
        if (format == DT_MXFP4) block[0] = (uint8_t)(112 + bits() % 16);
    }
    return blocks;
}

static dt_matrix make_matrix(dt_pool *pool, int32_t format, int32_t rows, int32_t cols)
{
    uint8_t *data = room(dt_packed_bytes(format, rows, cols));
    int32_t result;
    if (stored[format].bytes) {
        uint8_t *blocks = random_blocks(format, (int64_t)rows * cols / dt_block_cols(format));
        result = dt_repack_rows(pool, format, blocks, 0, rows, rows, cols, data);
        free(blocks);
    } else {
        float *source = numbers((int64_t)rows * cols, 0.25f);
        result = dt_pack_rows(pool, format, DT_F32, source, 0, rows, rows, cols, data);
        free(source);
    }
    check(result == DT_OK, "weights can be packed");
    return (dt_matrix){data, format, rows, cols};
}

/* ---- parts --------------------------------------------------------------------------------- */

enum { MOST_X = 17 };

static void products(dt_pool *pool)
{
    for (int32_t format = 0; format < DT_FORMATS; format++) {
        enum { ROWS = 90, COLS = 512 };
        begin(1000 + (uint64_t)format);
        const dt_matrix matrix = make_matrix(pool, format, ROWS, COLS);
        float *x = numbers(MOST_X * COLS, 3), alone[MOST_X * ROWS], y[MOST_X * ROWS];
        x[5] = 1e20f, x[COLS + 40] = NAN, x[2 * COLS + 70] = INFINITY; /* in rows 0, 1 and 2 */
        memset(x + 3 * COLS, 0, 100 * sizeof *x);
        for (int32_t i = 0; i < 64; i++) x[4 * COLS + i] *= 0x1p-127f;
        for (int32_t m = 0; m < MOST_X; m++) dt_matmul(pool, &matrix, x + m * COLS, 1, alone + m * ROWS);
        add_bytes(matrix.data, dt_packed_bytes(format, ROWS, COLS));
        add_floats(alone, MOST_X * ROWS);
        for (int32_t m = 1; m <= MOST_X; m++) {
            const uint64_t before = hash;
            dt_matmul(pool, &matrix, x, m, y);
            hash = 0;
            add_floats(y, m * ROWS);
            const uint64_t together = hash;
            hash = 0;
            add_floats(alone, m * ROWS);
            check(hash == together, "a row among others is multiplied as alone");
            hash = before;
        }
        float row[COLS];
        for (int32_t r = 0; r < ROWS; r += 7) dt_unpack_row(&matrix, r, row), add_floats(row, COLS);
        tell("products", stored[format].name);
        free((void *)matrix.data), free(x);
    }
}

static void packers(dt_pool *pool)
{
    static const int32_t types[] = {DT_F32, DT_F16, DT_BF16}, formats[] = {DT_Q4, DT_Q8, DT_F32, DT_F16, DT_BF16};
    enum { ROWS = 37, COLS = 70 };
    for (int t = 0; t < 3; t++) {
        begin(2000 + (uint64_t)t);
        float *x = numbers(ROWS * COLS, 0.5f);
        uint16_t *half = room(ROWS * COLS * 2);
        for (int i = 0; i < ROWS * COLS; i++) half[i] = (uint16_t)((bits() & 0x8fff) | 0x3000);
        memset(x, 0, 32 * sizeof *x);
        for (int i = 100; i < 130; i++) x[i] *= i % 2 ? 1e6f : 1e-9f;
        for (int f = 0; f < 5; f++) {
            const int64_t bytes = dt_packed_bytes(formats[f], ROWS, COLS);
            uint8_t *out = room(bytes);
            dt_pack_rows(pool, formats[f], types[t], t ? (void *)half : x, 0, ROWS, ROWS, COLS, out);
            add_bytes(out, bytes);
            free(out);
        }
        tell("packers", stored[types[t]].name);
        free(x), free(half);
    }
}

static void activations(void)
{
    enum { COUNT = 192 };
    const dt_kernels *kernels = dt_active()->forward;
    begin(3000);
    float *x = numbers(COUNT, 12), *other = numbers(COUNT, 9), *third = numbers(COUNT, 2), y[COUNT];
    x[3] = 0.0f, x[4] = -0.0f, x[5] = 200, x[6] = -200, x[7] = 0x1p-140f, x[8] = INFINITY, x[9] = -INFINITY;
    for (int a = 0; a < DT_ACTIVATIONS; a++) kernels->gated[a](x, other, COUNT, y), add_floats(y, COUNT);
    for (int32_t count = COUNT - 17; count <= COUNT; count++) {
        memcpy(y, x, sizeof y), kernels->silu(y, count), add_floats(y, COUNT);
        memcpy(y, x, sizeof y), kernels->softcap(y, count, 30), add_floats(y, COUNT);
        kernels->blend(x, other, third, count, y), add_floats(y, count);
    }
    memcpy(y, x, sizeof y), kernels->exponentials(y, COUNT), add_floats(y, COUNT);
    tell("activations", "");
    begin(3001);
    for (int32_t i = 8; i < 10; i++) x[i] = 1;
    for (int32_t cols = COUNT - 15; cols <= COUNT; cols++) {
        for (int32_t i = cols; i < COUNT; i++) x[i] = 0;
        kernels->rms_norm(x, other, cols, COUNT, 1e-5f, y), add_floats(y, COUNT);
    }
    tell("norm", "");
    begin(3002);
    for (int32_t e = 0; e < 64; e++) {
        uint16_t half[COUNT];
        for (int32_t i = 0; i < COUNT; i++) x[i] = number(ldexpf(1, e - 40));
        kernels->to_half(x, COUNT, half), add_bytes(half, sizeof half);
    }
    tell("halves", "");
    free(x), free(other), free(third);
}

/* Small numbers in fp16. */
static void fill_halves(uint16_t *x, int32_t count)
{
    for (int32_t i = 0; i < count; i++) x[i] = (uint16_t)((bits() & 0x83ff) | (10 + bits() % 6) << 10);
}

/* Keys or values of a chunk; those of 8 bits with `scales` numbers behind them. */
static uint16_t *chunk_of(int32_t type, int32_t dim, int32_t scales)
{
    uint16_t *x = room(DT_CHUNK * dim * 2 + scales * 2);
    if (type == DT_KV_F16) fill_halves(x, DT_CHUNK * dim);
    else {
        for (int32_t i = 0; i < DT_CHUNK * dim; i++) ((int8_t *)x)[i] = (int8_t)(bits() % 255 - 127);
        fill_halves(x + DT_CHUNK / 2 * dim, scales);
    }
    return x;
}

static void attention(int32_t type, const char *name)
{
    enum { MOST_QUERIES = 8, MOST_CHUNKS = 3, MOST_NUMBERS = 144 };
    const dt_kernels *kernels = dt_active()->forward;
    begin(4000 + type);
    for (int32_t dim = 64; dim <= MOST_NUMBERS; dim += 16)
        for (int32_t rows = 1; rows <= MOST_QUERIES; rows++) {
            float *queries = numbers(rows * dim, 0.5f), *mixed = room(rows * dim * 4);
            int16_t words[MOST_QUERIES][MOST_NUMBERS];
            dt_query query[MOST_QUERIES];
            float *of[MOST_QUERIES], peak[MOST_QUERIES], total[MOST_QUERIES];
            for (int32_t m = 0; m < rows; m++) {
                const float *x = queries + m * dim;
                query[m] = (dt_query){x, words[m], kernels->to_words(x, dim, words[m])};
                of[m] = mixed + m * dim, peak[m] = -INFINITY, total[m] = 0;
                add_bytes(words[m], dim * 2), add_floats(&query[m].scale, 1);
            }
            for (int32_t chunk = 0; chunk < MOST_CHUNKS; chunk++) {
                const int32_t blocks = (dim + DT_BLOCK - 1) / DT_BLOCK;
                const dt_chunk both = {chunk_of(type, dim, blocks * DT_CHUNK), chunk_of(type, dim, DT_CHUNK)};
                dt_span seen[MOST_QUERIES];
                for (int32_t m = 0; m < rows; m++) {
                    seen[m].from = (int32_t)(bits() % 40);
                    seen[m].to = seen[m].from + 1 + (int32_t)(bits() % (uint32_t)(DT_CHUNK - seen[m].from));
                }
                kernels->attend_chunk[type](both, both.keys, dim, query, seen, rows, rows % 3 ? 0 : 20, peak,
                                            total, of);
                free(both.keys), free(both.values);
            }
            int8_t bytes[MOST_NUMBERS];
            const uint16_t scale = kernels->to_bytes(mixed, dim, bytes);
            add_bytes(&scale, 2), add_bytes(bytes, dim);
            add_floats(mixed, rows * dim), add_floats(peak, rows), add_floats(total, rows);
            free(queries), free(mixed);
        }
    tell("attention.", name);
}

static void draws(dt_pool *pool)
{
    enum { VOCAB = 5003, NODES = 6, WIDTH = 20 };
    static const dt_sampling ways[] = {
        {0, 1, 0, 1, 0, 0, 1, 0, 0, 0},          {1, 1, 0, 1, 0, 0, 2, 0, 0, 1},
        {0.7, 0.9, 0, 1, 0, 0, 3, 40, 0, 1},     {1.3, 1, 0.05, 1, 0, 0, 4, 0, 0, 0},
        {0.9, 0.8, 0.01, 1.2, 0.1, 0.2, 5, 300, 2, 1},
    };
    begin(5000);
    float *logits = numbers((int64_t)NODES * VOCAB, 9);
    for (int32_t i = 0; i < 200; i++) logits[bits() % (NODES * VOCAB)] = i % 2 ? -INFINITY : 8.5f;
    int32_t tokens[NODES], *ids = room(dt_round_up(VOCAB, 64) * 4);
    const int32_t parents[NODES] = {-1, 0, 0, 1, 1, 2}, stop = 77;
    for (int32_t i = 0; i < NODES; i++) tokens[i] = (int32_t)(bits() % VOCAB);
    for (int32_t i = 0; i < VOCAB; i++) ids[i] = i * 3 + 1;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
        dt_sampler *sampler = dt_sampler_new(&ways[w], VOCAB, room(dt_sampler_bytes(&ways[w], VOCAB)));
        dt_sampler_commit(sampler, tokens, NODES);
        for (int32_t position = NODES; position < NODES + 20; position++) {
            int32_t path[NODES], drawn[NODES];
            float chances[NODES + 1];
            for (int32_t node = 0; node < NODES; node++) { /* so that some are drawn as drafted */
                dt_verification one = {.nodes = 1, .position = position, .limit = 9, .tokens = tokens,
                                       .parents = parents, .stop_ids = &stop, .logits = logits, .path = path,
                                       .drawn = drawn};
                check(dt_verify(pool, sampler, &one) == DT_OK, "there is a draw");
                if (node % 2) tokens[node] = drawn[0];
            }
            dt_verification tree = {.nodes = NODES, .position = position, .limit = 9, .stop_count = 1,
                                    .tokens = tokens, .parents = parents, .stop_ids = &stop, .logits = logits,
                                    .path = path, .drawn = drawn, .chances = chances};
            check(dt_verify(pool, sampler, &tree) == DT_OK, "there are draws");
            add_bytes(drawn, tree.length * 4), add_bytes(path, tree.length * 4);
            add_bytes(&tree.accepted, 8), add_floats(chances, tree.length + 1);
            dt_candidate ranked[NODES * WIDTH];
            check(dt_rank(pool, &ways[w], logits, NODES, VOCAB, w % 2 ? ids : NULL, position, WIDTH, ranked) == DT_OK,
                  "tokens can be ranked");
            add_bytes(ranked, sizeof ranked);
        }
        free(sampler);
    }
    tell("draws", "");
    free(logits), free(ids);
}

/* A model of two blocks, in chunks of `chunk` tokens. */
static uint64_t logits_of(dt_pool *pool, dt_segment *segment, int32_t chunk)
{
    enum { PROMPT = 100, VOCAB = 300 };
    dt_cache *cache = dt_cache_new(segment, PROMPT);
    static float hidden[PROMPT * 64], logits[PROMPT * VOCAB];
    begin(7000);
    for (int32_t from = 0; from < PROMPT; from += chunk) {
        int32_t tokens[PROMPT], positions[PROMPT], rows[PROMPT];
        const int32_t count = PROMPT - from < chunk ? PROMPT - from : chunk;
        for (int32_t i = 0; i < count; i++) tokens[i] = (from + i) * 17 % VOCAB, positions[i] = from + i, rows[i] = i;
        const dt_step step = {.rows = count, .first_slot = from, .logit_count = count, .tokens = tokens,
                              .positions = positions, .logit_rows = rows, .hidden_out = hidden, .logits = logits};
        check(dt_forward(pool, segment, cache, &step) == DT_OK, "a forward succeeds");
        add_floats(logits, (int64_t)count * VOCAB);
    }
    dt_cache_free(cache);
    return hash;
}

static void forwards(dt_pool *pool, dt_pool *more)
{
    enum { HIDDEN = 64, INNER = 160, DIM = 16, HEADS = 4, KV_HEADS = 2, POSITIONS = 100, VOCAB = 300 };
    static const int32_t formats[] = {DT_Q4, DT_Q4_1, DT_Q8, DT_Q5_0, DT_BF16};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        const int32_t format = formats[i];
        begin(6000 + (uint64_t)format);
        dt_block blocks[2] = {{.rope = 0}, {.rope = 0, .window = 40}};
        for (int b = 0; b < 2; b++) {
            blocks[b].qkv[0] = make_matrix(pool, format, HEADS * DIM, HIDDEN);
            blocks[b].qkv[1] = make_matrix(pool, format, KV_HEADS * DIM, HIDDEN);
            blocks[b].qkv[2] = make_matrix(pool, DT_Q8, KV_HEADS * DIM, HIDDEN);
            blocks[b].out = make_matrix(pool, format, HIDDEN, HEADS * DIM);
            blocks[b].mlp.gate_up[0] = make_matrix(pool, format, INNER, HIDDEN);
            blocks[b].mlp.gate_up[1] = make_matrix(pool, format, INNER, HIDDEN);
            blocks[b].mlp.down = make_matrix(pool, format, HIDDEN, INNER);
            blocks[b].input_norm = numbers(HIDDEN, 1), blocks[b].post_norm = numbers(HIDDEN, 1);
            blocks[b].query_norm = numbers(DIM, 1), blocks[b].key_norm = numbers(DIM, 1);
        }
        const dt_rope rope = {numbers(POSITIONS * DIM / 2, 1), numbers(POSITIONS * DIM / 2, 1), DIM};
        dt_segment segment = {.blocks = 2, .hidden = HIDDEN, .intermediate = INNER, .heads = HEADS,
                              .kv_heads = KV_HEADS, .head_dim = DIM, .activation = DT_SILU, .norm_eps = 1e-5f,
                              .attention_scale = 0.25f, .embedding_scale = 1, .block = blocks,
                              .embedding = make_matrix(pool, DT_BF16, VOCAB, HIDDEN),
                              .head = make_matrix(pool, format, VOCAB, HIDDEN), .final_norm = numbers(HIDDEN, 1),
                              .rope = &rope};
        segment.scratch_bytes = dt_scratch_bytes(&segment, POSITIONS);
        segment.scratch = room(segment.scratch_bytes);
        const uint64_t whole = logits_of(pool, &segment, POSITIONS);
        check(logits_of(pool, &segment, 1) == whole, "a prompt token by token gives the same logits");
        check(logits_of(more, &segment, 7) == whole, "so do chunks of 7, on three threads");
        tell("forwards", stored[format].name);
    }
}

int main(void)
{
    dt_pool *pool = dt_pool_new(1), *more = dt_pool_new(3);
    printf("best %s\n", isa_names[dt_best_isa()]);
    for (int32_t isa = 0; isa < DT_ISAS; isa++) {
        if (!dt_has_isa(isa)) continue;
        isa_name = isa_names[isa];
        check(dt_use_isa(isa) == DT_OK && dt_current_isa() == isa, "it can be used");
        products(pool), packers(pool), activations(), attention(DT_KV_F16, "f16"), attention(DT_KV_Q8, "q8"),
            draws(pool), forwards(pool, more);
    }
    dt_pool_free(pool), dt_pool_free(more);
    return 0;
}
