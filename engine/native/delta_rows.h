/* The arithmetic of gated delta layers, 16 numbers at a time; delta.c has the equations. Included by kernels.h.
 *
 * Arrays may be read to the next multiple of 16 behind their end. */

/* y = silu(sum of rows[t] * weights[t]) from the oldest row on, and zeros up to `padded`. */
static void convolve(const float *const *rows, int32_t width, const float *weights, int32_t stride, int32_t count,
                     int32_t padded, float *y)
{
    for (int32_t i = 0; i < count; i += 16) {
        v16 sum = v_mul(v_load(rows[0] + i), v_load(weights + i));
        for (int32_t t = 1; t < width; t++)
            sum = v_fma(v_load(rows[t] + i), v_load(weights + (int64_t)t * stride + i), sum);
        v_store(y + i, v_mul(sum, v_sigmoid(sum)));
    }
    for (int32_t i = count; i < padded; i++) y[i] = 0;
}

/* x = x * scale / sqrt(sum of squares + 1e-6) over `count` (a multiple of 16) numbers. */
static void unit(float *x, int32_t count, float scale)
{
    v16 squares = v_zero();
    for (int32_t i = 0; i < count; i += 16) squares = v_fma(v_load(x + i), v_load(x + i), squares);
    const v16 factor = v_set1(scale / sqrtf(v_sum(squares) + 1e-6f));
    for (int32_t i = 0; i < count; i += 16) v_store(x + i, v_mul(v_load(x + i), factor));
}

/* log(1 + exp(x)) = max(x, 0) + 2 atanh(u / (2 + u)) with u = exp(-|x|), by the series of atanh up to the 15th
 * power, as u / (2 + u) <= 1/3. */
ALWAYS_INLINE v16 v_softplus(v16 x)
{
    const v16 u = v_exp(v_sub(v_zero(), v_abs(x))), s = v_div(u, v_add(v_set1(2.0f), u)), z = v_mul(s, s);
    v16 p = v_set1(2.0f / 15);
    for (int32_t power = 13; power > 0; power -= 2) p = v_fma(p, z, v_set1(2.0f / (float)power));
    return v_add(v_max(x, v_zero()), v_mul(p, s));
}

/* share = sigmoid(beta), decay = exp(rate * softplus(alpha + bias)). */
static void delta_gates(const float *beta, const float *alpha, const float *rate, const float *bias, int32_t count,
                        float *share, float *decay)
{
    for (int32_t i = 0; i < count; i += 16) {
        v_store(share + i, v_sigmoid(v_load(beta + i)));
        const v16 time = v_softplus(v_add(v_load(alpha + i), v_load(bias + i)));
        v_store(decay + i, v_exp(v_mul(v_load(rate + i), time)));
    }
}

/* One token and 16 columns of one head's state, [dim][16], dim a multiple of 16:
 * d = share * (value - decay * from^T key), to = decay * from + key d^T, out = to^T query; without a query
 * nothing is put out. `to` may be `from`. */
static void delta_step(const float *from, float *to, int32_t dim, const float *key, const float *query, float decay,
                       float share, const float *value, float *out)
{
    const v16 less = v_set1(decay);
    v16 a = v_zero(), b = v_zero(), c = v_zero(), d = v_zero();
    for (int32_t i = 0; i < dim; i += 4) {
        a = v_fma(v_load(from + i * 16), v_set1(key[i]), a);
        b = v_fma(v_load(from + i * 16 + 16), v_set1(key[i + 1]), b);
        c = v_fma(v_load(from + i * 16 + 32), v_set1(key[i + 2]), c);
        d = v_fma(v_load(from + i * 16 + 48), v_set1(key[i + 3]), d);
    }
    const v16 known = v_mul(less, v_add(v_add(a, b), v_add(c, d)));
    const v16 added = v_mul(v_set1(share), v_sub(v_load(value), known));
    if (!query) {
        for (int32_t i = 0; i < dim; i++)
            v_store(to + i * 16, v_fma(v_set1(key[i]), added, v_mul(less, v_load(from + i * 16))));
        return;
    }
    v16 sum[4] = {v_zero(), v_zero(), v_zero(), v_zero()};
    for (int32_t i = 0; i < dim; i += 4)
        for (int32_t k = i; k < i + 4; k++) {
            const v16 next = v_fma(v_set1(key[k]), added, v_mul(less, v_load(from + k * 16)));
            v_store(to + k * 16, next);
            sum[k - i] = v_fma(next, v_set1(query[k]), sum[k - i]);
        }
    v_store(out, v_add(v_add(sum[0], sum[1]), v_add(sum[2], sum[3])));
}
