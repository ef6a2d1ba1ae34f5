/* Sixty-four bytes, the same operations on every instruction set; beside vector.h and included like it. */

#if DT_ISA == 2

typedef __m512i b64;
#define b_load(p) _mm512_loadu_si512((const void *)(p))
#define b_store(p, a) _mm512_storeu_si512((void *)(p), a)
#define b_set1(x) _mm512_set1_epi8((char)(x))
#define b_and(a, b) _mm512_and_si512(a, b)
#define b_xor(a, b) _mm512_xor_si512(a, b)
#define b_sub(a, b) _mm512_sub_epi8(a, b)
#define b_or_and(a, b, mask) _mm512_ternarylogic_epi64(a, b, mask, 0xf8)
#define b_right(a, n) _mm512_srli_epi16(a, n)
#define b_left(a, n) _mm512_slli_epi16(a, n)
#define b_look(table, a) \
    _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(table))), a)

/* Every 16 bytes look in 16 of their own; those of bytes 8..15 in the second table's. */
#define b_look_one(table, a) _mm512_shuffle_epi8(table, a)
#define b_look_two(first, second, a) \
    _mm512_mask_shuffle_epi8(_mm512_shuffle_epi8(first, a), 0xff00ff00ff00ff00, second, a)

/* Compute it now: GCC would put all sums off to the end and run out of registers. */
#define B_NOW(a) __asm__("" : "+v"(a))

/* c + the dot products of 16 times four unsigned bytes with the same four signed ones. */
#define b_dot(c, w, four) _mm512_dpbusd_epi32(c, w, _mm512_set1_epi32(four))

#elif DT_ISA == 1

typedef struct { __m256i lo, hi; } b64;
static inline b64 b_load(const void *p)
{
    return (b64){_mm256_loadu_si256(p), _mm256_loadu_si256((const void *)((const char *)p + 32))};
}
static inline b64 b_set1(int x) { return (b64){_mm256_set1_epi8((char)x), _mm256_set1_epi8((char)x)}; }
#define B_PAIR(op, a, b) ((b64){op((a).lo, (b).lo), op((a).hi, (b).hi)})
static inline b64 b_and(b64 a, b64 b) { return B_PAIR(_mm256_and_si256, a, b); }
static inline b64 b_xor(b64 a, b64 b) { return B_PAIR(_mm256_xor_si256, a, b); }
static inline b64 b_or(b64 a, b64 b) { return B_PAIR(_mm256_or_si256, a, b); }
static inline b64 b_or_and(b64 a, b64 b, b64 mask) { return b_or(a, b_and(b, mask)); }
#define b_right(a, n) ((b64){_mm256_srli_epi16((a).lo, n), _mm256_srli_epi16((a).hi, n)})
#define b_left(a, n) ((b64){_mm256_slli_epi16((a).lo, n), _mm256_slli_epi16((a).hi, n)})
static inline b64 b_look(const void *table, b64 a)
{
    const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(table));
    return (b64){_mm256_shuffle_epi8(t, a.lo), _mm256_shuffle_epi8(t, a.hi)};
}

static inline b64 b_look_one(v16i table, b64 a) { return B_PAIR(_mm256_shuffle_epi8, table, a); }
static inline b64 b_look_two(v16i first, v16i second, b64 a)
{
    const b64 x = b_look_one(first, a), y = b_look_one(second, a);
    return (b64){_mm256_blend_epi32(x.lo, y.lo, 0xcc), _mm256_blend_epi32(x.hi, y.hi, 0xcc)};
}

/* Products of unsigned with signed bytes, added up by twos in 16 bits: 2 * 128 * 127 fits. */
static inline b64 b_pairs(b64 w, b64 x) { return B_PAIR(_mm256_maddubs_epi16, w, x); }
static inline b64 b_set4(int32_t four) { return (b64){_mm256_set1_epi32(four), _mm256_set1_epi32(four)}; }
/* Signed bytes as |w|, and x with w's sign. */
static inline b64 b_size(b64 w) { return (b64){_mm256_abs_epi8(w.lo), _mm256_abs_epi8(w.hi)}; }
static inline b64 b_sign(b64 x, b64 w) { return B_PAIR(_mm256_sign_epi8, x, w); }
static inline b64 b_add16(b64 a, b64 b) { return B_PAIR(_mm256_add_epi16, a, b); }
/* See above. */
#define B_NOW(a) __asm__("" : "+x"((a).lo), "+x"((a).hi))
#ifdef DT_VNNI
/* c + the dot products of 16 times four unsigned bytes with the same four signed ones. */
static inline v16i b_dot(v16i c, b64 w, int32_t four)
{
    const __m256i x = _mm256_set1_epi32(four);
    return (v16i){_mm256_dpbusd_avx_epi32(c.lo, w.lo, x), _mm256_dpbusd_avx_epi32(c.hi, w.hi, x)};
}
#endif
/* c + 16-bit sums times those words, added up by twos. */
static inline v16i vi_dot_words(v16i c, b64 sums, v16i words)
{
    return (v16i){_mm256_add_epi32(c.lo, _mm256_madd_epi16(sums.lo, words.lo)),
                  _mm256_add_epi32(c.hi, _mm256_madd_epi16(sums.hi, words.hi))};
}
static inline v16i vi_ones(void) { return (v16i){_mm256_set1_epi16(1), _mm256_set1_epi16(1)}; }
/* Lanes of a and b that fit words, side by side. */
static inline v16i vi_pair(v16i a, v16i b)
{
    return (v16i){_mm256_blend_epi16(a.lo, _mm256_slli_epi32(b.lo, 16), 0xaa),
                  _mm256_blend_epi16(a.hi, _mm256_slli_epi32(b.hi, 16), 0xaa)};
}

#elif DT_ISA == 0 /* neon.h has NEON's */

typedef struct { uint8_t b[64]; } b64;
#define B_EACH(expression) \
    b64 r;                 \
    for (int l = 0; l < 64; l++) r.b[l] = (uint8_t)(expression); \
    return r
static inline b64 b_load(const uint8_t *p) { B_EACH(p[l]); }
static inline b64 b_set1(int x) { B_EACH(x); }
static inline b64 b_and(b64 a, b64 b) { B_EACH(a.b[l] & b.b[l]); }
static inline b64 b_xor(b64 a, b64 b) { B_EACH(a.b[l] ^ b.b[l]); }
static inline b64 b_or_and(b64 a, b64 b, b64 mask) { B_EACH(a.b[l] | (b.b[l] & mask.b[l])); }
static inline b64 b_right(b64 a, int n) { B_EACH(a.b[l] >> n); }
static inline b64 b_left(b64 a, int n) { B_EACH(a.b[l] << n); }
static inline b64 b_look(const uint8_t *table, b64 a) { B_EACH(table[a.b[l]]); }
static inline b64 b_look_two(v16i first, v16i second, b64 a)
{
    uint8_t table[2][64];
    memcpy(table[0], first.i, 64), memcpy(table[1], second.i, 64);
    B_EACH(table[l / 8 % 2][l / 16 * 16 + a.b[l] % 16]);
}
static inline b64 b_look_one(v16i table, b64 a) { return b_look_two(table, table, a); }
#define B_NOW(a) ((void)(a))
static inline v16i b_dot(v16i c, b64 w, int32_t four)
{
    int8_t x[4];
    memcpy(x, &four, 4);
    for (int r = 0; r < 16; r++)
        for (int i = 0; i < 4; i++) c.i[r] += w.b[r * 4 + i] * x[i];
    return c;
}

#endif
