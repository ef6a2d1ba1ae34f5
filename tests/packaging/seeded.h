/* Random numbers and weights made from integers, the same everywhere, and hashes of what comes of them. */
#ifndef SEEDED_H
#define SEEDED_H

#include "formats.h"
#include "pack.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

#endif
