/* Sixteen lanes, the same operations on every instruction set.
 *
 * Included by kernels.h once per instruction set, with DT_ISA set. All operations are correctly
 * rounded IEEE operations, so the lanes agree bit for bit whatever register they sit in.
 *
 * What every instruction set has to do, and test_native_lanes.py checks:
 * - rounding is to nearest, ties to even, also to integers and to fp16; v_fma rounds once; subnormal
 *   numbers count. That is a thread's state when it starts, and nobody may change it.
 * - fp16: from 65520 on infinite, NaN stays one.
 * - v_max(a, b) and v_min(a, b): b where one of them is a NaN, and where both are zeros.
 * - v_sum and v_top go by halves, 16 -> 8 -> 4 -> 2 -> 1, lane l with lane l + half behind it.
 * - v_exp: NaN as 88, which is what v_min makes of it.
 * - elsewhere a NaN gives a NaN; which one is open, so no number may depend on its bits.
 * - v_round_int: beyond int32 it is open, so whoever calls it keeps within.
 */
#include "half.h"

#include <math.h>
#include <string.h>

#if DT_ISA == 1 || DT_ISA == 2
#include <immintrin.h>
#endif

/* Two neighbouring words as one number. */
static inline int32_t both_words(const int16_t *pair)
{
    int32_t both;
    memcpy(&both, pair, sizeof both);
    return both;
}

#if DT_ISA == 2 /* AVX-512 with VNNI */

typedef __m512 v16;
typedef __m512i v16i;
#define v_zero() _mm512_setzero_ps()
#define v_set1(x) _mm512_set1_ps(x)
#define v_load(p) _mm512_loadu_ps(p)
#define v_store(p, v) _mm512_storeu_ps(p, v)
#define v_add(a, b) _mm512_add_ps(a, b)
#define v_sub(a, b) _mm512_sub_ps(a, b)
#define v_mul(a, b) _mm512_mul_ps(a, b)
#define v_div(a, b) _mm512_div_ps(a, b)
#define v_max(a, b) _mm512_max_ps(a, b)
#define v_min(a, b) _mm512_min_ps(a, b)
#define v_fma(a, b, c) _mm512_fmadd_ps(a, b, c)
#define v_abs(a) _mm512_abs_ps(a)
#define v_load_f16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define v_store_f16(p, v) \
    _mm256_storeu_si256((void *)(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define v_load_bf16(p)   \
    _mm512_castsi512_ps( \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16))
#define vi_from_u8(p) _mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p)))
#define vi_from_i8(p) _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p)))
#define vi_low_nibble(v) _mm512_and_si512(v, _mm512_set1_epi32(15))
#define vi_high_nibble(v) _mm512_srli_epi32(v, 4)
#define v_round_int(v) _mm512_cvtps_epi32(v)
#define v_from_int(v) _mm512_cvtepi32_ps(v)
#define vi_set1(x) _mm512_set1_epi32(x)
#define vi_add(a, b) _mm512_add_epi32(a, b)
#define vi_mul(a, b) _mm512_mullo_epi32(a, b)
#define vi_left(v, n) _mm512_slli_epi32(v, n)
#define vi_zip_low(a, b) _mm512_unpacklo_epi32(a, b)
#define vi_zip_high(a, b) _mm512_unpackhi_epi32(a, b)
#define vi_store(p, v) _mm512_storeu_si512((void *)(p), v)
#define vi_store_bytes(p, v) _mm_storeu_si128((void *)(p), _mm512_cvtepi32_epi8(v))
#define vi_shift_exponent(v) _mm512_castsi512_ps(_mm512_slli_epi32(v, 23))
#define vi_store_words(p, v) _mm256_storeu_si256((void *)(p), _mm512_cvtepi32_epi16(v))
typedef __m512i v32w;
#define vw_from_i8(p) _mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)(p)))
#define vi_dot_pairs(acc, x, pair) _mm512_dpwssd_epi32(acc, x, _mm512_set1_epi32(both_words(pair)))

#elif DT_ISA == 1 /* AVX2 with FMA and F16C */

typedef struct { __m256 lo, hi; } v16;
typedef struct { __m256i lo, hi; } v16i;
#define V_PAIR(op, a, b) ((v16){op((a).lo, (b).lo), op((a).hi, (b).hi)})
static inline v16 v_zero(void) { return (v16){_mm256_setzero_ps(), _mm256_setzero_ps()}; }
static inline v16 v_set1(float x) { return (v16){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
static inline v16 v_load(const float *p) { return (v16){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
static inline void v_store(float *p, v16 v) { _mm256_storeu_ps(p, v.lo); _mm256_storeu_ps(p + 8, v.hi); }
static inline v16 v_add(v16 a, v16 b) { return V_PAIR(_mm256_add_ps, a, b); }
static inline v16 v_sub(v16 a, v16 b) { return V_PAIR(_mm256_sub_ps, a, b); }
static inline v16 v_mul(v16 a, v16 b) { return V_PAIR(_mm256_mul_ps, a, b); }
static inline v16 v_div(v16 a, v16 b) { return V_PAIR(_mm256_div_ps, a, b); }
static inline v16 v_max(v16 a, v16 b) { return V_PAIR(_mm256_max_ps, a, b); }
static inline v16 v_min(v16 a, v16 b) { return V_PAIR(_mm256_min_ps, a, b); }
static inline v16 v_fma(v16 a, v16 b, v16 c)
{
    return (v16){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
static inline v16 v_abs(v16 a)
{
    __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    return (v16){_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
}
static inline v16 v_load_f16(const uint16_t *p)
{
    return (v16){_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)),
                 _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p + 8)))};
}
static inline void v_store_f16(uint16_t *p, v16 v)
{
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    _mm_storeu_si128((void *)(p + 8),
                     _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
static inline v16 v_load_bf16(const uint16_t *p)
{
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(
                     _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(
                     _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p + 8))), 16))};
}
static inline v16i vi_from_u8(const uint8_t *p)
{
    return (v16i){_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)),
                  _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p + 8)))};
}
static inline v16i vi_from_i8(const uint8_t *p)
{
    return (v16i){_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)p)),
                  _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p + 8)))};
}
static inline v16i vi_low_nibble(v16i v)
{
    const __m256i nibble = _mm256_set1_epi32(15);
    return (v16i){_mm256_and_si256(v.lo, nibble), _mm256_and_si256(v.hi, nibble)};
}
static inline v16i vi_high_nibble(v16i v)
{
    return (v16i){_mm256_srli_epi32(v.lo, 4), _mm256_srli_epi32(v.hi, 4)};
}
static inline v16i v_round_int(v16 v) { return (v16i){_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi)}; }
static inline v16 v_from_int(v16i v) { return (v16){_mm256_cvtepi32_ps(v.lo), _mm256_cvtepi32_ps(v.hi)}; }
static inline v16i vi_set1(int32_t x) { return (v16i){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
static inline v16i vi_add(v16i a, v16i b)
{
    return (v16i){_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
#define VI_PAIR(op, a, b) ((v16i){op((a).lo, (b).lo), op((a).hi, (b).hi)})
static inline v16i vi_sub(v16i a, v16i b) { return VI_PAIR(_mm256_sub_epi32, a, b); }
static inline v16i vi_mul(v16i a, v16i b) { return VI_PAIR(_mm256_mullo_epi32, a, b); }
#define vi_left(v, n) ((v16i){_mm256_slli_epi32((v).lo, n), _mm256_slli_epi32((v).hi, n)})
/* Of every four lanes of a and b: a0 b0 a1 b1, and a2 b2 a3 b3. */
static inline v16i vi_zip_low(v16i a, v16i b) { return VI_PAIR(_mm256_unpacklo_epi32, a, b); }
static inline v16i vi_zip_high(v16i a, v16i b) { return VI_PAIR(_mm256_unpackhi_epi32, a, b); }
static inline void vi_store(int32_t *p, v16i v)
{
    _mm256_storeu_si256((void *)p, v.lo);
    _mm256_storeu_si256((void *)(p + 8), v.hi);
}
/* Lanes in -32768..32767, as words. */
static inline void vi_store_words(int16_t *p, v16i v)
{
    _mm256_storeu_si256((void *)p, _mm256_permute4x64_epi64(_mm256_packs_epi32(v.lo, v.hi), 0xd8));
}
/* Words in pairs, one pair to a lane. */
typedef v16i v32w;
static inline v32w vw_from_i8(const int8_t *p)
{
    return (v32w){_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)),
                  _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)(p + 16)))};
}
/* acc + the products of each pair with this one, added up. */
static inline v16i vi_dot_pairs(v16i acc, v32w x, const int16_t *pair)
{
    const __m256i both = _mm256_set1_epi32(both_words(pair));
#ifdef DT_VNNI
    return (v16i){_mm256_dpwssd_avx_epi32(acc.lo, x.lo, both), _mm256_dpwssd_avx_epi32(acc.hi, x.hi, both)};
#else
    return (v16i){_mm256_add_epi32(acc.lo, _mm256_madd_epi16(x.lo, both)),
                  _mm256_add_epi32(acc.hi, _mm256_madd_epi16(x.hi, both))};
#endif
}
/* Lanes in -128..127, as bytes. */
static inline void vi_store_bytes(int8_t *p, v16i v)
{
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(v.lo, v.hi), 0xd8);
    _mm_storeu_si128((void *)p, _mm_packs_epi16(_mm256_castsi256_si128(words),
                                                _mm256_extracti128_si256(words, 1)));
}
static inline v16 vi_shift_exponent(v16i v)
{
    return (v16){_mm256_castsi256_ps(_mm256_slli_epi32(v.lo, 23)),
                 _mm256_castsi256_ps(_mm256_slli_epi32(v.hi, 23))};
}

#elif DT_ISA == 3

#include "neon.h"

#else /* portable C: the reference */

typedef struct { float f[16]; } v16;
typedef struct { int32_t i[16]; } v16i;
#define V_EACH(expression) \
    v16 r;                 \
    for (int l = 0; l < 16; l++) r.f[l] = (expression); \
    return r
static inline v16 v_zero(void) { V_EACH(0.0f); }
static inline v16 v_set1(float x) { V_EACH(x); }
static inline v16 v_load(const float *p) { V_EACH(p[l]); }
static inline void v_store(float *p, v16 v) { memcpy(p, v.f, sizeof v.f); }
static inline v16 v_add(v16 a, v16 b) { V_EACH(a.f[l] + b.f[l]); }
static inline v16 v_sub(v16 a, v16 b) { V_EACH(a.f[l] - b.f[l]); }
static inline v16 v_mul(v16 a, v16 b) { V_EACH(a.f[l] * b.f[l]); }
static inline v16 v_div(v16 a, v16 b) { V_EACH(a.f[l] / b.f[l]); }
static inline v16 v_max(v16 a, v16 b) { V_EACH(a.f[l] > b.f[l] ? a.f[l] : b.f[l]); }
static inline v16 v_min(v16 a, v16 b) { V_EACH(a.f[l] < b.f[l] ? a.f[l] : b.f[l]); }
/* a * b + c, rounded once, which not every C library's fmaf does. In double the product is exact; a sum that
 * is not gets the odd one of its two neighbours, so that rounding it to float rounds as the exact sum would. */
static inline float fma_once(float a, float b, float c)
{
#if defined(FP_FAST_FMAF)
    return fmaf(a, b, c);
#else
    const double product = (double)a * (double)b, sum = product + (double)c, added = sum - product;
    const double lost = (product - (sum - added)) + ((double)c - added);
    int64_t bits;
    memcpy(&bits, &sum, 8);
    if (lost < 0 || lost > 0) bits += bits & 1 ? 0 : (lost > 0) == (sum > 0) ? 1 : -1;
    double odd;
    memcpy(&odd, &bits, 8);
    return (float)odd;
#endif
}
static inline v16 v_fma(v16 a, v16 b, v16 c) { V_EACH(fma_once(a.f[l], b.f[l], c.f[l])); }
static inline v16 v_abs(v16 a) { V_EACH(fabsf(a.f[l])); }
static inline v16 v_load_f16(const uint16_t *p) { V_EACH(dt_half_to_float(p[l])); }
static inline void v_store_f16(uint16_t *p, v16 v)
{
    for (int l = 0; l < 16; l++) p[l] = dt_float_to_half(v.f[l]);
}
static inline v16 v_load_bf16(const uint16_t *p)
{
    v16 r;
    for (int l = 0; l < 16; l++) {
        uint32_t bits = (uint32_t)p[l] << 16;
        memcpy(&r.f[l], &bits, 4);
    }
    return r;
}
#define VI_LANES(expression) \
    v16i r;                  \
    for (int l = 0; l < 16; l++) r.i[l] = (expression); \
    return r
static inline v16i vi_from_u8(const uint8_t *p) { VI_LANES(p[l]); }
static inline v16i vi_from_i8(const uint8_t *p) { VI_LANES((int8_t)p[l]); }
static inline v16i vi_low_nibble(v16i v) { VI_LANES(v.i[l] & 15); }
static inline v16i vi_high_nibble(v16i v) { VI_LANES(v.i[l] >> 4); }
static inline v16i v_round_int(v16 v)
{
    v16i r;
    for (int l = 0; l < 16; l++) r.i[l] = (int32_t)lrintf(v.f[l]);
    return r;
}
static inline v16 v_from_int(v16i v) { V_EACH((float)v.i[l]); }
static inline v16i vi_set1(int32_t x)
{
    v16i r;
    for (int l = 0; l < 16; l++) r.i[l] = x;
    return r;
}
static inline v16i vi_add(v16i a, v16i b)
{
    v16i r;
    for (int l = 0; l < 16; l++) r.i[l] = (int32_t)((uint32_t)a.i[l] + (uint32_t)b.i[l]);
    return r;
}
static inline v16i vi_mul(v16i a, v16i b) { VI_LANES((int32_t)((uint32_t)a.i[l] * (uint32_t)b.i[l])); }
static inline v16i vi_left(v16i v, int n) { VI_LANES((int32_t)((uint32_t)v.i[l] << n)); }
static inline v16i vi_zip_low(v16i a, v16i b) { VI_LANES((l % 2 ? b : a).i[l / 4 * 4 + l % 4 / 2]); }
static inline v16i vi_zip_high(v16i a, v16i b) { VI_LANES((l % 2 ? b : a).i[l / 4 * 4 + 2 + l % 4 / 2]); }
static inline void vi_store(int32_t *p, v16i v) { memcpy(p, v.i, sizeof v.i); }
static inline void vi_store_bytes(int8_t *p, v16i v)
{
    for (int l = 0; l < 16; l++) p[l] = (int8_t)v.i[l];
}
static inline void vi_store_words(int16_t *p, v16i v)
{
    for (int l = 0; l < 16; l++) p[l] = (int16_t)v.i[l];
}
typedef struct { int8_t w[32]; } v32w;
static inline v32w vw_from_i8(const int8_t *p)
{
    v32w r;
    memcpy(r.w, p, sizeof r.w);
    return r;
}
static inline v16i vi_dot_pairs(v16i acc, v32w x, const int16_t *pair)
{
    VI_LANES(acc.i[l] + x.w[2 * l] * pair[0] + x.w[2 * l + 1] * pair[1]);
}
static inline v16 vi_shift_exponent(v16i v)
{
    v16 r;
    for (int l = 0; l < 16; l++) {
        uint32_t bits = (uint32_t)v.i[l] << 23;
        memcpy(&r.f[l], &bits, 4);
    }
    return r;
}

#endif

/* Sum and maximum of the lanes, by halves: 16 -> 8 -> 4 -> 2 -> 1. */
#if DT_ISA == 1 || DT_ISA == 2
static inline float v_sum(v16 v)
{
#if DT_ISA == 2
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
#else
    const __m256 eight = _mm256_add_ps(v.lo, v.hi);
#endif
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}

static inline float v_top(v16 v)
{
#if DT_ISA == 2
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
#else
    const __m256 eight = _mm256_max_ps(v.lo, v.hi);
#endif
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}
#elif DT_ISA == 0
static inline float v_sum(v16 v)
{
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++) v.f[l] += v.f[l + half];
    return v.f[0];
}

static inline float v_top(v16 v)
{
    for (int half = 8; half; half /= 2)
        for (int l = 0; l < half; l++) v.f[l] = v.f[l] > v.f[l + half] ? v.f[l] : v.f[l + half];
    return v.f[0];
}
#endif

#if DT_ISA != 3
static inline int32_t vi_sum(v16i v)
{
#if DT_ISA == 2
    return _mm512_reduce_add_epi32(v);
#else
    int32_t lane[16], sum = 0;
    vi_store(lane, v);
    for (int l = 0; l < 16; l++) sum += lane[l];
    return sum;
#endif
}
#endif

/* exp(x) for x <= 88, relative error below 2e-7; below -87 as at -87
 * x = n ln 2 + r with |r| <= ln 2 / 2; a polynomial of degree 6 in r (Taylor, nested). */
static inline v16 v_exp(v16 x)
{
    x = v_max(v_min(x, v_set1(88.0f)), v_set1(-87.0f));
    v16i n = v_round_int(v_mul(x, v_set1(1.44269504f)));
    v16 whole = v_from_int(n);
    v16 r = v_fma(whole, v_set1(-0.693145752f), x);
    r = v_fma(whole, v_set1(-1.42860677e-6f), r);
    v16 p = v_set1(1.0f / 720);
    p = v_fma(p, r, v_set1(1.0f / 120));
    p = v_fma(p, r, v_set1(1.0f / 24));
    p = v_fma(p, r, v_set1(1.0f / 6));
    p = v_fma(p, r, v_set1(0.5f));
    p = v_fma(p, r, v_set1(1.0f));
    p = v_fma(p, r, v_set1(1.0f));
    return v_mul(p, vi_shift_exponent(vi_add(n, vi_set1(127))));
}
