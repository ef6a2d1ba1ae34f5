/* Small operations on rows of activations. Included by kernels.h. */

#ifdef DT_SMMLA
/* Two rows lie one after the other, eight columns of the first, eight of the second: where the i-th eight
 * of a row are. */
static inline const int8_t *dt_eight(const dt_quantised *a, int32_t lane, int32_t i)
{
    return a->q[lane / 2 * 2] + i * 16 + lane % 2 * 8;
}

static inline void put_row(dt_quantised *out, int32_t lane, const int8_t *q)
{
    for (int32_t i = 0; i < 4; i++) memcpy((int8_t *)dt_eight(out, lane, i), q + i * 8, 8);
}
#else
static inline void put_row(dt_quantised *out, int32_t lane, const int8_t *q) { memcpy(out->q[lane], q, DT_BLOCK); }
#endif

#if DT_ISA == 1
static inline void put_pairs(int16_t pairs[2][2], const int8_t *q)
{
    const __m256i numbers = _mm256_loadu_si256((const void *)q);
    __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(1), numbers);
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0x4e));
    sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, 0xb1));
    sums = _mm256_sub_epi16(_mm256_setzero_si256(), _mm256_slli_epi16(sums, 5));
    _mm_storeu_si32(pairs[0], _mm256_castsi256_si128(sums));
    _mm_storeu_si32(pairs[1], _mm256_extracti128_si256(sums, 1));
}
#endif

/* Blocks [from, to) of row `row` from fp32 to int8: x ~ q * scale, q in -127..127. A block with a NaN or
 * an infinity has the scale NaN, so that no product of it is a number; numbers too small for 127 / top to
 * be finite become zeros. */
static void quantise(const float *x, int32_t row, int32_t cols, int32_t from, int32_t to,
                     dt_quantised *out, int8_t *spread)
{
    const int32_t lane = row % DT_TILE_ROWS;
    out += row / DT_TILE_ROWS * (cols / DT_BLOCK);
    for (int32_t b = from; b < to; b++) {
        v16 first = v_load(x + b * DT_BLOCK), second = v_load(x + b * DT_BLOCK + 16);
        /* Zero times anything is zero, but not times infinity or NaN. */
        const int finite = v_sum(v_fma(first, v_zero(), v_mul(second, v_zero()))) == 0;
        if (!finite) first = second = v_zero();
        const float top = v_top(v_max(v_abs(first), v_abs(second)));
        const v16 inverse = v_set1(top > 0x1p-120f ? 127.0f / top : 0.0f);
        v16i low = v_round_int(v_mul(first, inverse)), high = v_round_int(v_mul(second, inverse));
        int8_t q[DT_BLOCK];
        vi_store_bytes(q, low);
        vi_store_bytes(q + 16, high);
        put_row(&out[b], lane, q);
        const float scale = finite ? top / 127.0f : NAN;
        const int32_t left = vi_sum(low), right = vi_sum(high), sum = left + right;
        out[b].scale[lane] = scale;
        out[b].total[lane] = (float)sum * scale;
        out[b].of_half[lane][0] = (float)left * scale, out[b].of_half[lane][1] = (float)right * scale;
        out[b].start[lane] = -8 * sum;
        out[b].less[lane][0] = (int16_t)-left, out[b].less[lane][1] = (int16_t)-right;
#if DT_ISA == 1
        put_pairs(out[b].less_by_pairs[lane], q);
#endif
#ifdef DT_AMX
        if (row >= 8) continue;
        int8_t *whole = spread + b / 2 * DT_SPREAD, *halves = whole + 1024 + b % 2 * 512 + row * 32;
        memcpy(whole + row * 64 + b % 2 * (512 + 32), out[b].q[lane], 32);
        memcpy(halves, out[b].q[lane], 16);
        memcpy(halves + 256 + 16, out[b].q[lane] + 16, 16);
#endif
    }
    (void)spread;
}

/* y = x / rms(x) * weight; `cols` may be padded with zeros to `padded` (a multiple of 16). */
static void rms_norm(const float *x, const float *weight, int32_t cols, int32_t padded, float eps,
                     float *y)
{
    v16 squares = v_zero();
    for (int32_t i = 0; i < padded; i += 16) {
        v16 part = v_load(x + i);
        squares = v_fma(part, part, squares);
    }
    const float scale = 1.0f / sqrtf(v_sum(squares) / (float)cols + eps);
    for (int32_t i = 0; i < padded; i += 16)
        v_store(y + i, v_mul(v_mul(v_load(x + i), v_set1(scale)), v_load(weight + i)));
}

/* Feed-forwards over `count` (a multiple of 16) numbers: y = gate * sigmoid(...) * up. */
ALWAYS_INLINE void gated(const int activation, const float *gate, const float *up, int32_t count, float *y)
{
    for (int32_t i = 0; i < count; i += 16) {
        v16 g = v_load(gate + i), u = v_load(up + i), slope = g;
        const v16 one = v_set1(1.0f);
        if (activation == DT_GELU_TANH) { /* (1 + tanh(z)) / 2 = sigmoid(2 z), z = sqrt(2 / pi) (g + ...) */
            const v16 cube = v_mul(v_mul(g, g), g);
            slope = v_mul(v_set1(1.59576912f), v_fma(v_set1(0.044715f), cube, g));
        } else if (activation == DT_SWIGLU_OAI) {
            g = v_min(g, v_set1(7.0f));
            u = v_add(v_max(v_min(u, v_set1(7.0f)), v_set1(-7.0f)), one);
            slope = v_mul(v_set1(1.702f), g);
        }
        const v16 minus = v_sub(v_zero(), slope);
        v_store(y + i, v_mul(v_div(g, v_add(one, v_exp(minus))), u));
    }
}

#define GATED(NAME, ACTIVATION)                                                          \
    static void gated_##NAME(const float *gate, const float *up, int32_t count, float *y) \
    {                                                                                    \
        gated(ACTIVATION, gate, up, count, y);                                           \
    }
GATED(silu, DT_SILU)
GATED(gelu_tanh, DT_GELU_TANH)
GATED(swiglu_oai, DT_SWIGLU_OAI)

ALWAYS_INLINE v16 v_sigmoid(v16 x)
{
    const v16 one = v_set1(1.0f);
    return v_div(one, v_add(one, v_exp(v_sub(v_zero(), x))));
}

/* x = x * sigmoid(x) over any number of numbers. */
static void silu(float *x, int32_t count)
{
    float last[16] = {0};
    const int32_t whole = count / 16 * 16;
    for (int32_t i = 0; i < whole; i += 16) v_store(x + i, v_mul(v_load(x + i), v_sigmoid(v_load(x + i))));
    memcpy(last, x + whole, sizeof(float) * (size_t)(count - whole));
    v_store(last, v_mul(v_load(last), v_sigmoid(v_load(last))));
    memcpy(x + whole, last, sizeof(float) * (size_t)(count - whole));
}

ALWAYS_INLINE v16 v_blend(v16 gate, v16 a, v16 b)
{
    const v16 z = v_sigmoid(gate);
    return v_add(v_mul(z, a), v_mul(v_sub(v_set1(1.0f), z), b));
}

/* y = z * a + (1 - z) * b with z = sigmoid(gate), over any number of numbers. */
static void blend(const float *gate, const float *a, const float *b, int32_t count, float *y)
{
    float last[3][16] = {{0}};
    const int32_t whole = count / 16 * 16;
    const size_t left = sizeof(float) * (size_t)(count - whole);
    for (int32_t i = 0; i < whole; i += 16) v_store(y + i, v_blend(v_load(gate + i), v_load(a + i), v_load(b + i)));
    memcpy(last[0], gate + whole, left), memcpy(last[1], a + whole, left), memcpy(last[2], b + whole, left);
    v_store(last[0], v_blend(v_load(last[0]), v_load(last[1]), v_load(last[2])));
    memcpy(y + whole, last[0], left);
}

/* x = exp(x) over `count` (a multiple of 16) numbers. */
static void exponentials(float *x, int32_t count)
{
    for (int32_t i = 0; i < count; i += 16) v_store(x + i, v_exp(v_load(x + i)));
}

/* cap * tanh(x / cap), tanh(z) = 1 - 2 / (exp(2 z) + 1) */
static inline v16 v_softcap(v16 x, float cap)
{
    const v16 power = v_exp(v_mul(x, v_set1(2.0f / cap))), one = v_set1(1.0f);
    return v_mul(v_set1(cap), v_sub(one, v_div(v_set1(2.0f), v_add(power, one))));
}

static void softcap(float *x, int32_t count, float cap)
{
    const int32_t whole = count / 16 * 16, left = count - whole;
    for (int32_t i = 0; i < whole; i += 16) v_store(x + i, v_softcap(v_load(x + i), cap));
    float last[16] = {0};
    memcpy(last, x + whole, sizeof(float) * (size_t)left);
    v_store(last, v_softcap(v_load(last), cap));
    memcpy(x + whole, last, sizeof(float) * (size_t)left);
}

static void to_half(const float *x, int32_t count, uint16_t *y)
{
    for (int32_t i = 0; i < count; i += 16) v_store_f16(y + i, v_load(x + i));
}

/* The largest magnitude of x [count]; NaN where one of the numbers is none, or infinite. */
ALWAYS_INLINE float magnitude(const float *x, int32_t count)
{
    v16 top = v_zero(), nothing = v_zero();
    for (int32_t i = 0; i < count; i += 16) {
        const v16 part = v_load(x + i);
        nothing = v_fma(part, v_zero(), nothing); /* zero times anything is zero, but not infinity or NaN */
        top = v_max(top, v_abs(part));
    }
    return v_sum(nothing) == 0 ? v_top(top) : NAN;
}

/* x [count] ~ bytes * scale, which is returned as fp16; count is a multiple of 16. */
static uint16_t to_bytes(const float *x, int32_t count, int8_t *bytes)
{
    const uint16_t scale = dt_float_to_half(magnitude(x, count) / 127.0f);
    const float step = dt_half_to_float(scale);
    if (!(step > 0 && step < INFINITY)) { /* zeros, or with this scale no number comes of them */
        memset(bytes, 0, (size_t)count);
        return scale;
    }
    for (int32_t i = 0; i < count; i += 16) {
        const v16 part = v_mul(v_load(x + i), v_set1(1.0f / step));
        vi_store_bytes(bytes + i, v_round_int(v_max(v_min(part, v_set1(127.0f)), v_set1(-127.0f))));
    }
    return scale;
}

/* x [count] ~ words * scale, which is returned; count is a multiple of 16. */
static float to_words(const float *x, int32_t count, int16_t *words)
{
    const float most = magnitude(x, count);
    if (!(most > 0x1p-100f)) { /* too small for 32767 / most to be finite, or NaN */
        memset(words, 0, sizeof *words * (size_t)count);
        return most;
    }
    for (int32_t i = 0; i < count; i += 16)
        vi_store_words(words + i, v_round_int(v_mul(v_load(x + i), v_set1(32767.0f / most))));
    return most / 32767.0f;
}
