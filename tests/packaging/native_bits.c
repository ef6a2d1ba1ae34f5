/* Everything that the library computes, as a hash per instruction set: for systems and compilers other than
 * the one that Python's tests run on. Linked with the library; numbers come from integers alone. */
#include "draft.h"
#include "pack.h"
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 72, INNER = 96, HEADS = 4, KV_HEADS = 2, DIM = 20, VOCAB = 323, ROWS = 150, WIDE = 512 };

static uint64_t seed;
static uint64_t hash;

static uint32_t number(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

/* In -1..1. */
static float real(void) { return (float)(int32_t)(number() >> 8) * 0x1p-23f - 1.0f; }

static void add(const void *data, size_t bytes)
{
    const uint8_t *byte = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3u;
}

/* Zeroed, at a 64-byte border, with 64 bytes to read past its end; never freed. */
static void *room(int64_t bytes)
{
    uint8_t *memory = calloc(1, (size_t)bytes + 192);
    if (!memory) exit(2);
    return memory + (64 - (uintptr_t)memory % 64);
}

static float *reals(int64_t count)
{
    float *x = room(count * 4);
    for (int64_t i = 0; i < count; i++) x[i] = real();
    return x;
}

static dt_matrix packed(dt_pool *pool, int32_t format, int32_t rows, int32_t cols)
{
    const int32_t padded = (rows + 15) / 16 * 16;
    uint8_t *out = room(dt_packed_bytes(format, rows, cols));
    int32_t result;
    if (format == DT_Q8 || format == DT_Q4 || format == DT_BF16 || format == DT_F16 || format == DT_F32)
        result = dt_pack_rows(pool, format, DT_F32, reals((int64_t)rows * cols), 0, rows, rows, cols, out);
    else {
        const int64_t bytes = (int64_t)padded * cols * 2;
        uint8_t *blocks = room(bytes); /* no 16-bit float of them is infinite */
        for (int64_t i = 0; i < bytes; i++) blocks[i] = (uint8_t)(number() & 0xbf);
        result = dt_repack_rows(pool, format, blocks, 0, rows, rows, cols, out);
    }
    if (result) printf("packing format %d gives %d\n", format, result);
    add(out, (size_t)dt_packed_bytes(format, rows, cols));
    return (dt_matrix){out, format, rows, cols};
}

static void products(dt_pool *pool)
{
    for (int32_t format = 0; format < DT_FORMATS; format++) {
        const dt_matrix matrix = packed(pool, format, 53, WIDE);
        for (int32_t rows = 1; rows < 40; rows = rows * 2 + 1) {
            float *y = room(rows * 53 * 4);
            if (dt_matmul(pool, &matrix, reals((int64_t)rows * WIDE), rows, y)) puts("no product");
            add(y, (size_t)rows * 53 * 4);
        }
    }
}

static float *logits_of_a_model(dt_pool *pool)
{
    dt_block block[2] = {{.rope = 0}, {.rope = -1, .window = 40}};
    for (int i = 0; i < 2; i++) {
        const int32_t format = i ? DT_Q8 : DT_Q4;
        block[i].qkv[0] = packed(pool, format, HEADS * DIM, HIDDEN);
        block[i].qkv[1] = packed(pool, format, KV_HEADS * DIM, HIDDEN);
        block[i].qkv[2] = packed(pool, format, KV_HEADS * DIM, HIDDEN);
        block[i].out = packed(pool, format, HIDDEN, HEADS * DIM);
        block[i].input_norm = reals(128), block[i].post_norm = reals(128);
        block[i].mlp.gate_up[0] = packed(pool, format, INNER, HIDDEN);
        block[i].mlp.gate_up[1] = packed(pool, format, INNER, HIDDEN);
        block[i].mlp.down = packed(pool, format, HIDDEN, INNER);
    }
    const dt_rope rope = {reals(ROWS * DIM / 2), reals(ROWS * DIM / 2), DIM};
    dt_segment segment = {
        .blocks = 2, .hidden = HIDDEN, .intermediate = INNER, .heads = HEADS, .kv_heads = KV_HEADS,
        .head_dim = DIM, .activation = DT_GELU_TANH, .norm_eps = 1e-5f, .attention_scale = 0.25f,
        .attention_softcap = 30, .logit_softcap = 20, .embedding_scale = 8, .block = block,
        .embedding = packed(pool, DT_Q8, VOCAB, HIDDEN), .head = packed(pool, DT_F16, VOCAB, HIDDEN),
        .final_norm = reals(128), .rope = &rope,
    };
    segment.scratch_bytes = dt_scratch_bytes(&segment, ROWS);
    segment.scratch = room(segment.scratch_bytes);
    dt_cache *cache = dt_cache_new(&segment, ROWS);
    int32_t tokens[ROWS], positions[ROWS], rows[ROWS];
    for (int32_t i = 0; i < ROWS; i++)
        tokens[i] = (int32_t)(number() % VOCAB), positions[i] = i, rows[i] = i;
    float *logits = room(ROWS * VOCAB * 4), *hidden = room(ROWS * HIDDEN * 4);
    const dt_step step = {.rows = ROWS, .logit_count = ROWS, .tokens = tokens, .positions = positions,
                          .logit_rows = rows, .hidden_out = hidden, .logits = logits};
    if (dt_forward(pool, &segment, cache, &step)) puts("no forward");
    dt_cache_free(cache);
    add(logits, ROWS * VOCAB * 4), add(hidden, ROWS * HIDDEN * 4);
    return logits;
}

static void draws(dt_pool *pool, const float *logits)
{
    const dt_sampling sampling = {.temperature = 0.8, .top_p = 0.9, .min_p = 0.02, .repetition = 1.1,
                                  .presence = 0.1, .frequency = 0.1, .seed = 42, .top_k = 100, .share_noise = 1};
    dt_sampler *sampler = dt_sampler_new(&sampling, VOCAB, room(dt_sampler_bytes(&sampling, VOCAB)));
    for (int32_t row = 0; row < ROWS; row++) {
        const int32_t token = 0, parent = -1;
        int32_t path, drawn;
        float chances[2];
        dt_verification one = {.nodes = 1, .position = row, .limit = 1, .tokens = &token, .parents = &parent,
                               .logits = logits + row * VOCAB, .path = &path, .drawn = &drawn, .chances = chances};
        dt_candidate best[5];
        if (dt_verify(pool, sampler, &one)) puts("no draw");
        if (dt_rank(pool, &sampling, logits + row * VOCAB, 1, VOCAB, NULL, row, 5, best)) puts("no ranking");
        dt_sampler_commit(sampler, &drawn, 1);
        add(&drawn, sizeof drawn), add(chances, sizeof chances[0]), add(best, sizeof best);
    }
}

/* Numbers that make the difference, in every place of every operation; all NaN count as one. */
static void operations(void)
{
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1.0f, -1.5f, 2.5f, 0x1p-149f,
                                    -0x1p-127f, 0x1.fffffep127f, -0x1.fffffep127f, 65519.996f, 65520.0f,
                                    0x1.000002p0f, 0x1.fffffep-1f, 0x1p-25f, -0x1.8p-25f};
    enum { MANY = sizeof special / sizeof *special };
    for (int32_t operation = DT_LANES_ADD; operation <= DT_LANES_HALF; operation++)
        for (int i = 0; i < 200; i++) {
            float x[3][16], y[16];
            for (int j = 0; j < 48; j++) {
                x[j / 16][j % 16] = number() % 4 ? special[number() % MANY] : real();
                if (operation == DT_LANES_ROUND) x[j / 16][j % 16] = real() * (float)(number() % 256);
            }
            dt_lanes(operation, x[0], x[1], x[2], y);
            for (int l = 0; l < 16; l++)
                if (y[l] == y[l]) add(&y[l], sizeof y[l]);
                else add("NaN", 3);
        }
}

int main(void)
{
    dt_pool *pool = dt_pool_new(3);
    for (int32_t isa = 0; isa <= dt_best_isa(); isa++) {
        if (dt_use_isa(isa)) continue;
        uint64_t parts[4];
        seed = 1, hash = 0xcbf29ce484222325u;
        operations(), parts[0] = hash;
        products(pool), parts[1] = hash;
        const float *logits = logits_of_a_model(pool);
        parts[2] = hash;
        draws(pool, logits), parts[3] = hash;
        printf("%d", isa);
        for (int i = 0; i < 4; i++) printf(" %016llx", (unsigned long long)parts[i]);
        puts("");
    }
    dt_pool_free(pool);
    return 0;
}
