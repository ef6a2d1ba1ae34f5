/* Which instruction set is used: the best that was built and that is here, unless a test forces another. */
#include "draw.h"
#include "pack_job.h"

#include <stdatomic.h>

/* Tiles and dot products serve the forward alone. */
static const dt_isa_table tables[DT_ISAS] = {
    [DT_PORTABLE] = {&dt_kernels_portable, &dt_draw_portable, &dt_packers_portable},
#if DT_HAS_AVX2
    [DT_AVX2] = {&dt_kernels_avx2, &dt_draw_avx2, &dt_packers_avx2},
#endif
#if DT_HAS_AVX_VNNI
    [DT_AVX_VNNI] = {&dt_kernels_avx_vnni, &dt_draw_avx2, &dt_packers_avx2},
#endif
#if DT_HAS_AVX512
    [DT_AVX512] = {&dt_kernels_avx512, &dt_draw_avx512, &dt_packers_avx512},
#endif
#if DT_HAS_AMX
    [DT_AMX_INT8] = {&dt_kernels_amx, &dt_draw_avx512, &dt_packers_avx512},
#endif
#if DT_HAS_NEON
    [DT_NEON] = {&dt_kernels_neon, &dt_draw_neon, &dt_packers_neon},
#endif
#if DT_HAS_DOTPROD
    [DT_DOTPROD] = {&dt_kernels_dotprod, &dt_draw_neon, &dt_packers_neon},
#endif
#if DT_HAS_I8MM
    [DT_I8MM] = {&dt_kernels_i8mm, &dt_draw_neon, &dt_packers_neon},
#endif
};

static _Atomic(const dt_isa_table *) active;

int32_t dt_has_isa(int32_t isa)
{
    return isa >= 0 && isa < DT_ISAS && dt_processor_isas() >> isa & 1 && tables[isa].forward;
}

int32_t dt_best_isa(void)
{
    int32_t best = DT_ISAS - 1;
    while (!dt_has_isa(best)) best--;
    return best;
}

int32_t dt_use_isa(int32_t isa)
{
    if (!dt_has_isa(isa)) return DT_BAD_ARGUMENT;
    atomic_store(&active, &tables[isa]);
    return DT_OK;
}

const dt_isa_table *dt_active(void)
{
    const dt_isa_table *table = atomic_load_explicit(&active, memory_order_relaxed);
    if (table) return table;
    dt_use_isa(dt_best_isa());
    return atomic_load(&active);
}

int32_t dt_current_isa(void) { return (int32_t)(dt_active() - tables); }
