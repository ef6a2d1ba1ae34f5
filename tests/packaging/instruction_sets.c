/* Hashes of what the native library computes, one line for each part and instruction set of this processor.
 *
 * Linked with the library for this processor and for others, whose lines have to agree:
 *     avx2 products.Q4_0 9f86d081884c7d65
 * Beside it, what does not depend on the instruction set is compared here: rows alone and among others,
 * numbers of threads, chunks of a prompt, trees and what is left of them. All input is made from integers, so that it is the same everywhere.
 */
#include "forwards.h"
#include "sample.h"
#include "seeded.h"


static const char *const isa_names[DT_ISAS] = {"portable", "avx2",    "avx_vnni", "avx512", "amx",
                                              "neon",     "dotprod", "i8mm"};

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
