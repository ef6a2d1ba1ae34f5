/* Hashes of what the native library computes, one line for each part and instruction set of this processor.
 *
 * Linked with the library for this processor and for others, whose lines have to agree:
 *     avx2 products.Q4_0 9f86d081884c7d65
 * Beside it, what does not depend on the instruction set is compared here: rows alone and among others,
 * numbers of threads, chunks of a prompt. All input is made from integers, so that it is the same everywhere.
 */
#include "formats.h"
#include "pack.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const isa_names[DT_ISAS] = {"portable", "avx2",    "avx_vnni", "avx512", "amx",
                                              "neon",     "dotprod", "i8mm"};
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

/* Zeros at a 64-byte border, with 64 bytes to read past their end; never freed. */
static void *room(int64_t bytes)
{
    uint8_t *memory = calloc(1, (size_t)bytes + 192);
    if (!memory) exit(2);
    return memory + (64 - (uintptr_t)memory % 64);
}

static float *numbers(int64_t count, float size)
{
    float *x = room(count * 4);
    for (int64_t i = 0; i < count; i++) x[i] = number(size);
    return x;
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
    if (stored[format].bytes && cols % dt_block_cols(format) == 0) {
        uint8_t *blocks = random_blocks(format, (int64_t)rows * cols / dt_block_cols(format));
        result = dt_repack_rows(pool, format, blocks, 0, rows, rows, cols, data);
    } else {
        float *source = numbers((int64_t)rows * cols, 0.25f);
        result = dt_pack_rows(pool, format, DT_F32, source, 0, rows, rows, cols, data);
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
        }
        tell("packers", stored[types[t]].name);
    }
}

/* Numbers that make the difference, in every place of every operation. */
static void operations(void)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.5f, 2.5f, 0x1p-149f,
                                    -0x1p-127f, 0x1.fffffep127f, -0x1.fffffep127f, 65519.996f, 65520.0f,
                                    0x1.000002p0f, 0x1.fffffep-1f, 0x1p-25f, -0x1.8p-25f};
    enum { MANY = sizeof special / sizeof *special };
    begin(3000);
    for (int32_t operation = DT_LANES_ADD; operation <= DT_LANES_HALF; operation++)
        for (int i = 0; i < 200; i++) {
            float x[3][16], y[16];
            for (int j = 0; j < 48; j++) {
                x[j / 16][j % 16] = bits() % 4 ? special[bits() % MANY] : number(1);
                if (operation == DT_LANES_ROUND) x[j / 16][j % 16] = number(256);
            }
            dt_lanes(operation, x[0], x[1], x[2], y);
            add_floats(y, 16);
        }
    tell("operations", "");
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
    int32_t tokens[NODES], *ids = room(VOCAB * 4 + 256);
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
    }
    tell("draws", "");
}

/* ---- models -------------------------------------------------------------------------------- */

enum { HIDDEN = 72, INNER = 160, DIM = 20, KV_HEADS = 2, PROMPT = 150, VOCAB = 300, WIDTH = 96, EXPERTS = 4 };

enum { DGF = 1, MTP }; /* feature heads, which begin as these do */

typedef struct {
    const char *name;
    int32_t format, kv_type, activation, heads, experts, head;
    float cap;
} model;

static const model models[] = {
    {"Q4_0", DT_Q4, DT_KV_F16, DT_SILU, 4, 0, 0, 0},
    {"Q8_0", DT_Q8, DT_KV_Q8, DT_GELU_TANH, 2, 0, 0, 20},
    {"Q4_0.q8", DT_Q4, DT_KV_Q8, DT_SILU, 6, 0, 0, 0},
    {"BF16", DT_BF16, DT_KV_F16, DT_GELU_TANH, 2, 0, 0, 30},
    {"experts", DT_Q4, DT_KV_F16, DT_SWIGLU_OAI, 8, EXPERTS, 0, 0},
    {"head.dgf", DT_Q8, DT_KV_F16, DT_SILU, 4, 0, DGF, 0},
    {"head.mtp", DT_Q4, DT_KV_F16, DT_SILU, 4, 0, MTP, 0},
};

static dt_mlp make_mlp(dt_pool *pool, int32_t format)
{
    dt_mlp mlp = {.down = make_matrix(pool, format, HIDDEN, INNER)};
    for (int i = 0; i < 2; i++) mlp.gate_up[i] = make_matrix(pool, format, INNER, HIDDEN);
    return mlp;
}

static const dt_fusion *make_fusion(dt_pool *pool, const model *m)
{
    dt_fusion *fusion = room(sizeof *fusion);
    *fusion = (dt_fusion){.join = make_matrix(pool, m->format, HIDDEN, 2 * HIDDEN),
                          .token_norm = numbers(HIDDEN, 1)};
    if (m->head == DGF) {
        fusion->width = WIDTH, fusion->gated = 1;
        fusion->feature = make_matrix(pool, m->format, HIDDEN, WIDTH);
        fusion->token = make_matrix(pool, m->format, HIDDEN, HIDDEN);
    } else {
        fusion->width = HIDDEN, fusion->returns_normed = 1;
        fusion->feature_norm = numbers(HIDDEN, 1);
    }
    return fusion;
}

static dt_segment make_segment(dt_pool *pool, const model *m)
{
    dt_block *blocks = room(2 * sizeof *blocks);
    for (int b = 0; b < 2; b++) {
        blocks[b] = (dt_block){.heads = m->heads, .kv_heads = KV_HEADS, .head_dim = DIM, .inner = INNER,
                               .rope = b ? -1 : 0, .window = b * 70, .attention_scale = 0.25f};
        blocks[b].in[0] = make_matrix(pool, m->format, m->heads * DIM, HIDDEN);
        for (int i = 1; i < 3; i++) blocks[b].in[i] = make_matrix(pool, m->format, KV_HEADS * DIM, HIDDEN);
        blocks[b].out = make_matrix(pool, m->format, HIDDEN, m->heads * DIM);
        blocks[b].input_norm = numbers(HIDDEN, 1), blocks[b].post_norm = numbers(HIDDEN, 1);
        blocks[b].query_norm = numbers(DIM, 1), blocks[b].key_norm = numbers(DIM, 1);
        if (!m->experts) {
            blocks[b].mlp = make_mlp(pool, m->format);
            continue;
        }
        dt_mlp *expert = room(EXPERTS * sizeof *expert);
        for (int e = 0; e < EXPERTS; e++) expert[e] = make_mlp(pool, m->format);
        blocks[b].experts = (dt_experts){.router = {make_matrix(pool, DT_F32, EXPERTS, HIDDEN)}, .expert = expert,
                                         .count = EXPERTS, .used = 2, .intermediate = INNER, .normalise = 1};
    }
    dt_rope *rope = room(sizeof *rope);
    *rope = (dt_rope){numbers(PROMPT * DIM / 2, 1), numbers(PROMPT * DIM / 2, 1), DIM};
    dt_segment segment = {.blocks = 2, .hidden = HIDDEN, .activation = m->activation, .kv_type = m->kv_type,
                          .norm_eps = 1e-5f, .attention_softcap = m->cap, .logit_softcap = m->cap,
                          .embedding_scale = 1, .block = blocks,
                          .embedding = make_matrix(pool, DT_BF16, VOCAB, HIDDEN),
                          .head = make_matrix(pool, DT_F16, VOCAB, HIDDEN), .final_norm = numbers(HIDDEN, 1),
                          .rope = rope, .fusion = m->head ? make_fusion(pool, m) : NULL};
    segment.scratch_bytes = dt_scratch_bytes(&segment, PROMPT);
    segment.scratch = room(segment.scratch_bytes);
    return segment;
}

/* What comes of the prompt in chunks of so many tokens. */
static uint64_t logits_of(dt_pool *pool, const dt_segment *segment, int32_t chunk)
{
    static float hidden[PROMPT * HIDDEN], logits[PROMPT * VOCAB], *features;
    dt_cache *cache = dt_cache_new(segment, PROMPT);
    begin(7000);
    if (!features) features = numbers(PROMPT * WIDTH, 2);
    for (int32_t from = 0; from < PROMPT; from += chunk) {
        int32_t tokens[PROMPT], positions[PROMPT], rows[PROMPT];
        const int32_t count = PROMPT - from < chunk ? PROMPT - from : chunk;
        for (int32_t i = 0; i < count; i++) tokens[i] = (from + i) * 17 % VOCAB, positions[i] = from + i, rows[i] = i;
        const dt_step step = {.rows = count, .first_slot = from, .logit_count = count, .tokens = tokens,
                              .positions = positions, .logit_rows = rows, .hidden_out = hidden + from * HIDDEN,
                              .hidden_in = segment->fusion ? features + from * segment->fusion->width : NULL,
                              .logits = logits + from * VOCAB};
        check(dt_forward(pool, segment, cache, &step) == DT_OK, "a forward succeeds");
    }
    dt_cache_free(cache);
    add_floats(hidden, PROMPT * HIDDEN), add_floats(logits, PROMPT * VOCAB);
    return hash;
}

static void forwards(dt_pool *pool, dt_pool *more)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        begin(6000 + i);
        const dt_segment segment = make_segment(pool, &models[i]);
        const uint64_t whole = logits_of(pool, &segment, PROMPT);
        for (int32_t chunk = 1; chunk <= 17; chunk += 2)
            check(logits_of(chunk % 4 == 3 ? more : pool, &segment, chunk) == whole,
                  "a prompt in chunks, on one thread or three, gives the same logits");
        tell("forwards", models[i].name);
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
        operations(), products(pool), packers(pool), draws(pool), forwards(pool, more);
    }
    dt_pool_free(pool), dt_pool_free(more);
    return 0;
}
