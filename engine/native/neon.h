/* NEON's lanes, integers and bytes: what vector.h, integers.h and bytes.h have for other instruction sets.
 *
 * The four registers a, b, c, d hold lanes 0-3, 4-7, 8-11 and 12-15.
 */
#include <arm_neon.h>

typedef struct { float32x4_t a, b, c, d; } v16;
typedef struct { int32x4_t a, b, c, d; } v16i;

#define ONE_BY_ONE(type, op, x) ((type){op((x).a), op((x).b), op((x).c), op((x).d)})
#define TWO_BY_TWO(type, op, x, y) \
    ((type){op((x).a, (y).a), op((x).b, (y).b), op((x).c, (y).c), op((x).d, (y).d)})

/* ---- floats -------------------------------------------------------------------------------- */

static inline v16 v_set1(float x)
{
    const float32x4_t all = vdupq_n_f32(x);
    return (v16){all, all, all, all};
}
static inline v16 v_zero(void) { return v_set1(0.0f); }
static inline v16 v_load(const float *p)
{
    return (v16){vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
static inline void v_store(float *p, v16 v)
{
    vst1q_f32(p, v.a), vst1q_f32(p + 4, v.b), vst1q_f32(p + 8, v.c), vst1q_f32(p + 12, v.d);
}
static inline v16 v_add(v16 x, v16 y) { return TWO_BY_TWO(v16, vaddq_f32, x, y); }
static inline v16 v_sub(v16 x, v16 y) { return TWO_BY_TWO(v16, vsubq_f32, x, y); }
static inline v16 v_mul(v16 x, v16 y) { return TWO_BY_TWO(v16, vmulq_f32, x, y); }
static inline v16 v_div(v16 x, v16 y) { return TWO_BY_TWO(v16, vdivq_f32, x, y); }
/* Not vmaxq and vminq: the second one where one is a NaN or both are zeros, as everywhere. */
static inline float32x4_t larger(float32x4_t x, float32x4_t y) { return vbslq_f32(vcgtq_f32(x, y), x, y); }
static inline float32x4_t smaller(float32x4_t x, float32x4_t y) { return vbslq_f32(vcltq_f32(x, y), x, y); }
static inline v16 v_max(v16 x, v16 y) { return TWO_BY_TWO(v16, larger, x, y); }
static inline v16 v_min(v16 x, v16 y) { return TWO_BY_TWO(v16, smaller, x, y); }
static inline v16 v_abs(v16 x) { return ONE_BY_ONE(v16, vabsq_f32, x); }
static inline v16 v_fma(v16 x, v16 y, v16 z)
{
    return (v16){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c),
                 vfmaq_f32(z.d, x.d, y.d)};
}
static inline v16 v_load_f16(const uint16_t *p)
{
    const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p)), high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
    return (v16){vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)),
                 vcvt_high_f32_f16(high)};
}
static inline void v_store_f16(uint16_t *p, v16 v)
{
    vst1q_u16(p, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.a), v.b)));
    vst1q_u16(p + 8, vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(v.c), v.d)));
}
static inline v16 v_load_bf16(const uint16_t *p)
{
    const uint16x8_t low = vld1q_u16(p), high = vld1q_u16(p + 8);
    return (v16){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(low, 16)),
                 vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), 16)),
                 vreinterpretq_f32_u32(vshll_high_n_u16(high, 16))};
}

/* By halves, as in vector.h. */
static inline float v_sum(v16 v)
{
    const float32x4_t four = vaddq_f32(vaddq_f32(v.a, v.c), vaddq_f32(v.b, v.d));
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
static inline float v_top(v16 v)
{
    const float32x4_t four = larger(larger(v.a, v.c), larger(v.b, v.d));
    const float32x4_t two = larger(four, vextq_f32(four, four, 2));
    return vgetq_lane_f32(larger(two, vdupq_laneq_f32(two, 1)), 0);
}

/* ---- integers ------------------------------------------------------------------------------ */

static inline v16i vi_set1(int32_t x)
{
    const int32x4_t all = vdupq_n_s32(x);
    return (v16i){all, all, all, all};
}
static inline v16i vi_load(const void *p)
{
    const int32_t *at = p;
    return (v16i){vld1q_s32(at), vld1q_s32(at + 4), vld1q_s32(at + 8), vld1q_s32(at + 12)};
}
static inline void vi_store(int32_t *p, v16i v)
{
    vst1q_s32(p, v.a), vst1q_s32(p + 4, v.b), vst1q_s32(p + 8, v.c), vst1q_s32(p + 12, v.d);
}
static inline v16i vi_from_words(int16x8_t low, int16x8_t high)
{
    return (v16i){vmovl_s16(vget_low_s16(low)), vmovl_high_s16(low), vmovl_s16(vget_low_s16(high)),
                  vmovl_high_s16(high)};
}
static inline v16i vi_from_u8(const uint8_t *p)
{
    const uint8x16_t all = vld1q_u8(p);
    return vi_from_words(vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(all))),
                         vreinterpretq_s16_u16(vmovl_high_u8(all)));
}
static inline v16i vi_from_i8(const uint8_t *p)
{
    const int8x16_t all = vreinterpretq_s8_u8(vld1q_u8(p));
    return vi_from_words(vmovl_s8(vget_low_s8(all)), vmovl_high_s8(all));
}
/* Lanes in -128..127, as bytes. */
static inline void vi_store_bytes(int8_t *p, v16i v)
{
    const int16x8_t low = vmovn_high_s32(vmovn_s32(v.a), v.b), high = vmovn_high_s32(vmovn_s32(v.c), v.d);
    vst1q_s8(p, vmovn_high_s16(vmovn_s16(low), high));
}
/* Lanes in -32768..32767, as words. */
static inline void vi_store_words(int16_t *p, v16i v)
{
    vst1q_s16(p, vcombine_s16(vmovn_s32(v.a), vmovn_s32(v.b)));
    vst1q_s16(p + 8, vcombine_s16(vmovn_s32(v.c), vmovn_s32(v.d)));
}
/* Words in pairs, one pair to a lane. */
typedef struct { int16x8_t a, b, c, d; } v32w;
static inline v32w vw_from_i8(const int8_t *p)
{
    const int8x16_t low = vld1q_s8(p), high = vld1q_s8(p + 16);
    return (v32w){vmovl_s8(vget_low_s8(low)), vmovl_high_s8(low), vmovl_s8(vget_low_s8(high)),
                  vmovl_high_s8(high)};
}
/* acc + the products of each pair with this one, added up. */
static inline int32x4_t four_dot_pairs(int32x4_t acc, int16x8_t x, int16x8_t both)
{
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(both));
    return vaddq_s32(acc, vpaddq_s32(low, vmull_high_s16(x, both)));
}
static inline v16i vi_dot_pairs(v16i acc, v32w x, const int16_t *pair)
{
    const int16x8_t both = vreinterpretq_s16_s32(vdupq_n_s32(both_words(pair)));
    return (v16i){four_dot_pairs(acc.a, x.a, both), four_dot_pairs(acc.b, x.b, both),
                  four_dot_pairs(acc.c, x.c, both), four_dot_pairs(acc.d, x.d, both)};
}
static inline v16i vi_add(v16i x, v16i y) { return TWO_BY_TWO(v16i, vaddq_s32, x, y); }
static inline v16i vi_mul(v16i x, v16i y) { return TWO_BY_TWO(v16i, vmulq_s32, x, y); }
static inline v16i vi_zip_low(v16i x, v16i y) { return TWO_BY_TWO(v16i, vzip1q_s32, x, y); }
static inline v16i vi_zip_high(v16i x, v16i y) { return TWO_BY_TWO(v16i, vzip2q_s32, x, y); }
static inline v16i vi_and(v16i x, v16i y) { return TWO_BY_TWO(v16i, vandq_s32, x, y); }
static inline v16i vi_or(v16i x, v16i y) { return TWO_BY_TWO(v16i, vorrq_s32, x, y); }
static inline v16i vi_xor(v16i x, v16i y) { return TWO_BY_TWO(v16i, veorq_s32, x, y); }
static inline v16i vi_xor3(v16i x, v16i y, v16i z) { return vi_xor(vi_xor(x, y), z); }
static inline v16i vi_low_nibble(v16i v) { return vi_and(v, vi_set1(15)); }
#define LOGICAL_RIGHT(x) vreinterpretq_s32_u32(vreinterpretq_u32_s32(x) >> n)
static inline v16i vi_shift_right(v16i v, const int n) { return ONE_BY_ONE(v16i, LOGICAL_RIGHT, v); }
#define LEFT(x) vreinterpretq_s32_u32(vreinterpretq_u32_s32(x) << n)
static inline v16i vi_left(v16i v, const int n) { return ONE_BY_ONE(v16i, LEFT, v); }
static inline v16i vi_high_nibble(v16i v) { return vi_shift_right(v, 4); }
#define SIGN(x) vshrq_n_s32(x, 31)
static inline v16i vi_sign(v16i v) { return ONE_BY_ONE(v16i, SIGN, v); }
static inline v16i v_round_int(v16 v) { return ONE_BY_ONE(v16i, vcvtnq_s32_f32, v); }
static inline v16 v_from_int(v16i v) { return ONE_BY_ONE(v16, vcvtq_f32_s32, v); }
static inline v16i v_bits(v16 v) { return ONE_BY_ONE(v16i, vreinterpretq_s32_f32, v); }
static inline v16 vi_as_float(v16i v) { return ONE_BY_ONE(v16, vreinterpretq_f32_s32, v); }
#define EXPONENT_OF(x) vreinterpretq_f32_s32(vshlq_n_s32(x, 23))
static inline v16 vi_shift_exponent(v16i v) { return ONE_BY_ONE(v16, EXPONENT_OF, v); }
static inline int32_t vi_sum(v16i v)
{
    return vaddvq_s32(vaddq_s32(vaddq_s32(v.a, v.b), vaddq_s32(v.c, v.d)));
}
#define PICK(sign, x, y) vbslq_f32(vreinterpretq_u32_s32(SIGN(sign)), x, y)
static inline v16 v_pick(v16i sign, v16 x, v16 y)
{
    return (v16){PICK(sign.a, x.a, y.a), PICK(sign.b, x.b, y.b), PICK(sign.c, x.c, y.c), PICK(sign.d, x.d, y.d)};
}
static inline void vi_product4(int32x4_t x, int32x4_t y, int32x4_t *high, int32x4_t *low)
{
    const uint32x4_t a = vreinterpretq_u32_s32(x), b = vreinterpretq_u32_s32(y);
    const int32x4_t first = vreinterpretq_s32_u64(vmull_u32(vget_low_u32(a), vget_low_u32(b)));
    const int32x4_t second = vreinterpretq_s32_u64(vmull_high_u32(a, b));
    *low = vuzp1q_s32(first, second), *high = vuzp2q_s32(first, second);
}
static inline void vi_product(v16i x, v16i y, v16i *high, v16i *low)
{
    vi_product4(x.a, y.a, &high->a, &low->a), vi_product4(x.b, y.b, &high->b, &low->b);
    vi_product4(x.c, y.c, &high->c, &low->c), vi_product4(x.d, y.d, &high->d, &low->d);
}

/* ---- masks, one bit per lane --------------------------------------------------------------- */

typedef struct { uint32x4_t a, b, c, d; } v16u;
static inline uint32_t v_lanes(v16u v)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint16x8_t low = vmovn_high_u32(vmovn_u32(v.a), v.b), high = vmovn_high_u32(vmovn_u32(v.c), v.d);
    const uint8x16_t set = vandq_u8(vmovn_high_u16(vmovn_u16(low), high), vld1q_u8(bits));
    return (uint32_t)vaddv_u8(vget_low_u8(set)) | (uint32_t)vaddv_u8(vget_high_u8(set)) << 8;
}
static inline uint32_t v_above(v16 x, v16 y) { return v_lanes(TWO_BY_TWO(v16u, vcgtq_f32, x, y)); }
static inline uint32_t v_not_below(v16 x, v16 y) { return v_lanes(TWO_BY_TWO(v16u, vcgeq_f32, x, y)); }
static inline uint32_t v_nan(v16 x) { return v_lanes(TWO_BY_TWO(v16u, vceqq_f32, x, x)) ^ 0xffff; }
static inline uint32_t vi_positive(v16i x) { return v_lanes(ONE_BY_ONE(v16u, vcgtzq_s32, x)); }

/* ---- bytes --------------------------------------------------------------------------------- */

/* Half of sixty-four: see neon_products.h. */
typedef struct { uint8x16_t low, high; } b64;

static inline b64 b_load(const uint8_t *p) { return (b64){vld1q_u8(p), vld1q_u8(p + 16)}; }
static inline b64 b_set1(int x) { return (b64){vdupq_n_u8((uint8_t)x), vdupq_n_u8((uint8_t)x)}; }
static inline b64 b_and(b64 x, b64 y) { return (b64){vandq_u8(x.low, y.low), vandq_u8(x.high, y.high)}; }
static inline b64 b_or(b64 x, b64 y) { return (b64){vorrq_u8(x.low, y.low), vorrq_u8(x.high, y.high)}; }
static inline b64 b_or_and(b64 x, b64 y, b64 mask) { return b_or(x, b_and(y, mask)); }
static inline b64 b_right(b64 x, const int n) { return (b64){x.low >> n, x.high >> n}; }
static inline b64 b_left(b64 x, const int n) { return (b64){x.low << n, x.high << n}; }
static inline b64 b_look(const uint8_t *table, b64 x)
{
    return (b64){vqtbl1q_u8(vld1q_u8(table), x.low), vqtbl1q_u8(vld1q_u8(table), x.high)};
}
/* Tables of the first half of the rows: see bytes.h. */
static inline b64 b_look_one(v16i table, b64 x)
{
    return (b64){vqtbl1q_u8(vreinterpretq_u8_s32(table.a), x.low), vqtbl1q_u8(vreinterpretq_u8_s32(table.b), x.high)};
}
static inline b64 b_look_two(v16i first, v16i second, b64 x)
{
    const uint8x16x2_t low = {{vreinterpretq_u8_s32(first.a), vreinterpretq_u8_s32(second.a)}};
    const uint8x16x2_t high = {{vreinterpretq_u8_s32(first.b), vreinterpretq_u8_s32(second.b)}};
    return (b64){vqtbl2q_u8(low, x.low), vqtbl2q_u8(high, x.high)};
}
