/* Sixteen 32-bit integers, and masks of sixteen lanes; beside vector.h and included like it. */
#include <stdint.h>

/* One bit per lane. */
typedef uint32_t v_mask;

#if DT_ISA == 2

#define vi_load(p) _mm512_loadu_si512((const void *)(p))
#define vi_and(a, b) _mm512_and_si512(a, b)
#define vi_or(a, b) _mm512_or_si512(a, b)
#define vi_xor(a, b) _mm512_xor_si512(a, b)
#define vi_xor3(a, b, c) _mm512_ternarylogic_epi32(a, b, c, 0x96)
#define vi_shift_right(v, n) _mm512_srli_epi32(v, n)
#define vi_sign(v) _mm512_srai_epi32(v, 31)
#define v_bits(v) _mm512_castps_si512(v)
#define vi_as_float(v) _mm512_castsi512_ps(v)
#define v_above(a, b) ((v_mask)_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ))
#define v_not_below(a, b) ((v_mask)_mm512_cmp_ps_mask(a, b, _CMP_GE_OQ))
#define v_nan(a) ((v_mask)_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q))
#define vi_positive(v) ((v_mask)_mm512_cmpgt_epi32_mask(v, _mm512_setzero_si512()))
#define v_pick(sign, a, b) _mm512_mask_blend_ps(_mm512_movepi32_mask(sign), b, a)
static inline void vi_product(v16i a, v16i b, v16i *high, v16i *low)
{
    const __m512i even = _mm512_mul_epu32(a, b), odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
    *low = _mm512_mask_shuffle_epi32(even, 0xAAAA, odd, 0xA0);
    *high = _mm512_mask_shuffle_epi32(odd, 0x5555, even, 0xF5);
}

#elif DT_ISA == 1

static inline v16i vi_load(const void *p)
{
    const char *at = p;
    return (v16i){_mm256_loadu_si256((const void *)at), _mm256_loadu_si256((const void *)(at + 32))};
}
static inline v16i vi_and(v16i a, v16i b) { return VI_PAIR(_mm256_and_si256, a, b); }
static inline v16i vi_or(v16i a, v16i b) { return VI_PAIR(_mm256_or_si256, a, b); }
static inline v16i vi_xor(v16i a, v16i b) { return VI_PAIR(_mm256_xor_si256, a, b); }
static inline v16i vi_xor3(v16i a, v16i b, v16i c) { return vi_xor(vi_xor(a, b), c); }
#define vi_shift_right(v, n) ((v16i){_mm256_srli_epi32((v).lo, n), _mm256_srli_epi32((v).hi, n)})
static inline v16i vi_sign(v16i v)
{
    return (v16i){_mm256_srai_epi32(v.lo, 31), _mm256_srai_epi32(v.hi, 31)};
}
static inline v16i v_bits(v16 v) { return (v16i){_mm256_castps_si256(v.lo), _mm256_castps_si256(v.hi)}; }
static inline v16 vi_as_float(v16i v)
{
    return (v16){_mm256_castsi256_ps(v.lo), _mm256_castsi256_ps(v.hi)};
}
static inline v_mask v_lanes(__m256 lo, __m256 hi)
{
    return (v_mask)_mm256_movemask_ps(lo) | (v_mask)_mm256_movemask_ps(hi) << 8;
}
#define V_COMPARE(a, b, how) v_lanes(_mm256_cmp_ps((a).lo, (b).lo, how), _mm256_cmp_ps((a).hi, (b).hi, how))
static inline v_mask v_above(v16 a, v16 b) { return V_COMPARE(a, b, _CMP_GT_OQ); }
static inline v_mask v_not_below(v16 a, v16 b) { return V_COMPARE(a, b, _CMP_GE_OQ); }
static inline v_mask v_nan(v16 a) { return V_COMPARE(a, a, _CMP_UNORD_Q); }
static inline v_mask vi_positive(v16i v)
{
    const __m256i zero = _mm256_setzero_si256();
    return v_lanes(_mm256_castsi256_ps(_mm256_cmpgt_epi32(v.lo, zero)),
                   _mm256_castsi256_ps(_mm256_cmpgt_epi32(v.hi, zero)));
}
static inline v16 v_pick(v16i sign, v16 a, v16 b)
{
    return (v16){_mm256_blendv_ps(b.lo, a.lo, _mm256_castsi256_ps(sign.lo)),
                 _mm256_blendv_ps(b.hi, a.hi, _mm256_castsi256_ps(sign.hi))};
}
static inline void vi_product8(__m256i a, __m256i b, __m256i *high, __m256i *low)
{
    const __m256i even = _mm256_mul_epu32(a, b), odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
    *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xAA);
}
static inline void vi_product(v16i a, v16i b, v16i *high, v16i *low)
{
    vi_product8(a.lo, b.lo, &high->lo, &low->lo);
    vi_product8(a.hi, b.hi, &high->hi, &low->hi);
}

#elif DT_ISA == 0 /* neon.h has NEON's */

#define VI_EACH(expression) \
    v16i r;                 \
    for (int l = 0; l < 16; l++) r.i[l] = (int32_t)(expression); \
    return r
#define V_MASK(condition) \
    v_mask r = 0;         \
    for (int l = 0; l < 16; l++) r |= (v_mask)(condition) << l; \
    return r
static inline v16i vi_load(const void *p)
{
    v16i r;
    memcpy(r.i, p, sizeof r.i);
    return r;
}
static inline v16i vi_and(v16i a, v16i b) { VI_EACH(a.i[l] & b.i[l]); }
static inline v16i vi_or(v16i a, v16i b) { VI_EACH(a.i[l] | b.i[l]); }
static inline v16i vi_xor(v16i a, v16i b) { VI_EACH(a.i[l] ^ b.i[l]); }
static inline v16i vi_xor3(v16i a, v16i b, v16i c) { VI_EACH(a.i[l] ^ b.i[l] ^ c.i[l]); }
static inline v16i vi_shift_right(v16i v, int n) { VI_EACH((uint32_t)v.i[l] >> n); }
static inline v16i vi_sign(v16i v) { VI_EACH(v.i[l] < 0 ? -1 : 0); }
static inline v16i v_bits(v16 v)
{
    v16i r;
    memcpy(r.i, v.f, sizeof r.i);
    return r;
}
static inline v16 vi_as_float(v16i v)
{
    v16 r;
    memcpy(r.f, v.i, sizeof r.f);
    return r;
}
static inline v_mask v_above(v16 a, v16 b) { V_MASK(a.f[l] > b.f[l]); }
static inline v_mask v_not_below(v16 a, v16 b) { V_MASK(a.f[l] >= b.f[l]); }
static inline v_mask v_nan(v16 a) { V_MASK(a.f[l] != a.f[l]); }
static inline v_mask vi_positive(v16i v) { V_MASK(v.i[l] > 0); }
static inline v16 v_pick(v16i sign, v16 a, v16 b) { V_EACH(sign.i[l] < 0 ? a.f[l] : b.f[l]); }
static inline void vi_product(v16i a, v16i b, v16i *high, v16i *low)
{
    for (int l = 0; l < 16; l++) {
        const uint64_t product = (uint64_t)(uint32_t)a.i[l] * (uint32_t)b.i[l];
        high->i[l] = (int32_t)(product >> 32);
        low->i[l] = (int32_t)product;
    }
}

#endif
