/* Small operations on rows of activations. Included by kernels.h. */

/* Blocks [from, to) of row `row` from fp32 to int8: x ~ q * scale, q in -127..127. */
static void quantise(const float *x, int32_t row, int32_t cols, int32_t from, int32_t to,
                     dt_quantised *out, int8_t *spread)
{
    const int32_t lane = row % DT_TILE_ROWS;
    out += row / DT_TILE_ROWS * (cols / DT_BLOCK);
    for (int32_t b = from; b < to; b++) {
        v16 first = v_load(x + b * DT_BLOCK), second = v_load(x + b * DT_BLOCK + 16);
        float top = v_top(v_max(v_abs(first), v_abs(second)));
        v16 inverse = v_set1(top > 0 ? 127.0f / top : 0.0f);
        v16i low = v_round_int(v_mul(first, inverse)), high = v_round_int(v_mul(second, inverse));
        vi_store_bytes(out[b].q[lane], low);
        vi_store_bytes(out[b].q[lane] + 16, high);
        const float scale = top / 127.0f;
        const int32_t half = vi_sum(low), sum = vi_sum(vi_add(low, high));
        out[b].row[lane] = (dt_row){scale, -8 * sum, -8 * half, (float)sum * scale};
#ifdef DT_AMX
        if (row < 8) memcpy(spread + b / 2 * 1024 + row * 64 + b % 2 * (512 + 32), out[b].q[lane], 32);
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

/* y = silu(gate) * up over `count` (a multiple of 16) numbers. */
static void gated(const float *gate, const float *up, int32_t count, float *y)
{
    for (int32_t i = 0; i < count; i += 16) {
        v16 g = v_load(gate + i);
        v16 one = v_set1(1.0f), minus = v_sub(v_zero(), g);
        v_store(y + i, v_mul(v_div(g, v_add(one, v_exp(minus))), v_load(up + i)));
    }
}

static void to_half(const float *x, int32_t count, uint16_t *y)
{
    for (int32_t i = 0; i < count; i += 16) v_store_f16(y + i, v_load(x + i));
}
