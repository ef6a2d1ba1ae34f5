/* Gumbel noise keyed by (seed, position, token), one token at a time.
 *
 * engine/backend/noise.py explains it and does the same in numpy, bit for bit: every step here is
 * one IEEE operation, in the same order.
 */
#ifndef DUOTAIL_NOISE_H
#define DUOTAIL_NOISE_H

#include <stdint.h>
#include <string.h>

enum { DT_ROUNDS = 10 };

/* Philox4x32-10 at one position: the keys of its rounds. */
typedef struct {
    uint32_t key[DT_ROUNDS][2];
    uint32_t position;
} dt_noise;

static inline dt_noise dt_noise_at(uint64_t seed, int32_t position)
{
    dt_noise noise = {.position = (uint32_t)position};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int r = 0; r < DT_ROUNDS; r++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        noise.key[r][0] = k0, noise.key[r][1] = k1;
    return noise;
}

/* The 32 random bits of a token. Sixty-four neighbours share 16 counters, so that a register of 16
 * lanes holds 16 neighbours without any shuffling. */
static inline uint32_t dt_noise_word(const dt_noise *noise, int32_t token)
{
    uint32_t c[4] = {(uint32_t)(token / 64 * 16 + token % 16), noise->position, 0, 0};
    for (int r = 0; r < DT_ROUNDS; r++) {
        const uint64_t a = (uint64_t)c[0] * 0xD2511F53u, b = (uint64_t)c[2] * 0xCD9E8D57u;
        c[0] = (uint32_t)(b >> 32) ^ c[1] ^ noise->key[r][0];
        c[1] = (uint32_t)b;
        c[2] = (uint32_t)(a >> 32) ^ c[3] ^ noise->key[r][1];
        c[3] = (uint32_t)a;
    }
    return c[token / 16 % 4];
}

/* ln x of a normal x > 0, to about 1e-16 relative. x = 2^k m with m in [sqrt 1/2, sqrt 2) and
 * ln m = 2 artanh s, s = (m - 1) / (m + 1), by its series. */
static inline double dt_log(double x)
{
    int64_t bits, one_half = 0x3FE6A09E667F3BCD; /* sqrt 1/2 */
    memcpy(&bits, &x, 8);
    const int64_t k = (bits - one_half) >> 52;
    bits -= (int64_t)((uint64_t)k << 52);
    double m;
    memcpy(&m, &bits, 8);
    const double f = m - 1.0, s = f / (2.0 + f), z = s * s;
    double sum = 1.0 / 21;
    for (int odd = 19; odd >= 1; odd -= 2) sum = sum * z + 1.0 / odd;
    return (double)k * 0.6931471805599453 + (s + s) * sum;
}

/* -ln(-ln u), u the word's 32 bits centred in their intervals: never 0, never 1. */
static inline double dt_gumbel(uint32_t word)
{
    return -dt_log(-dt_log(((double)word + 0.5) * 0x1p-32));
}

#endif
