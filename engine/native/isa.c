/* Which instruction set is used: the best there is, unless a test forces another. */
#include "internal.h"

#include <stdatomic.h>

static _Atomic(const dt_kernels *) active;
static atomic_int current;

#if defined(__x86_64__)
int32_t dt_best_isa(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return DT_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return DT_AVX2;
    return DT_PORTABLE;
}

static const dt_kernels *kernels_of(int32_t isa)
{
    if (isa == DT_AVX512) return &dt_kernels_avx512;
    return isa == DT_AVX2 ? &dt_kernels_avx2 : &dt_kernels_portable;
}
#else
int32_t dt_best_isa(void) { return DT_PORTABLE; }
static const dt_kernels *kernels_of(int32_t isa) { (void)isa; return &dt_kernels_portable; }
#endif

int32_t dt_use_isa(int32_t isa)
{
    if (isa < 0 || isa > dt_best_isa()) return DT_BAD_ARGUMENT;
    atomic_store(&current, isa);
    atomic_store(&active, kernels_of(isa));
    return DT_OK;
}

const dt_kernels *dt_active(void)
{
    const dt_kernels *kernels = atomic_load_explicit(&active, memory_order_relaxed);
    if (kernels) return kernels;
    dt_use_isa(dt_best_isa());
    return atomic_load(&active);
}

int32_t dt_current_isa(void)
{
    dt_active();
    return atomic_load(&current);
}
