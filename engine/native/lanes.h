/* Operations of vector.h one by one, so that tests can tell what they make of NaN and how they round.
 * Included by kernels.h. */
static void lanes(int32_t operation, const float *a, const float *b, const float *c, float *y)
{
    const v16 x = v_load(a), z = v_load(b);
    uint16_t half[16];
    switch (operation) {
    case DT_LANES_ADD: v_store(y, v_add(x, z)); break;
    case DT_LANES_MUL: v_store(y, v_mul(x, z)); break;
    case DT_LANES_DIV: v_store(y, v_div(x, z)); break;
    case DT_LANES_FMA: v_store(y, v_fma(x, z, v_load(c))); break;
    case DT_LANES_MAX: v_store(y, v_max(x, z)); break;
    case DT_LANES_MIN: v_store(y, v_min(x, z)); break;
    case DT_LANES_SUM: v_store(y, v_set1(v_sum(x))); break;
    case DT_LANES_TOP: v_store(y, v_set1(v_top(x))); break;
    case DT_LANES_ROUND: v_store(y, v_from_int(v_round_int(x))); break;
    case DT_LANES_EXP: v_store(y, v_exp(x)); break;
    case DT_LANES_HALF:
        v_store_f16(half, x);
        v_store(y, v_load_f16(half));
        break;
    }
}
