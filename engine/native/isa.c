/* Which instruction set is used: the best there is, unless a test forces another. */
#include "internal.h"

#include <stdatomic.h>

static _Atomic(const dt_kernels *) active;
static atomic_int current;

#if DT_HAS_AMX
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AMX int8 and GFNI are there, and the system lets this process have tiles. */
static int has_tiles(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
    const int amx_tile = d >> 24 & 1, amx_int8 = d >> 25 & 1, gfni = c >> 8 & 1;
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, XTILEDATA = 18 };
    return amx_tile && amx_int8 && gfni && !syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XTILEDATA);
}
#else
static int has_tiles(void) { return 0; }
#endif

#if defined(__x86_64__)
static int32_t find_best(void)
{
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni"))
        return has_tiles() ? DT_AMX_INT8 : DT_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return DT_AVX2;
    return DT_PORTABLE;
}

static const dt_kernels *kernels_of(int32_t isa)
{
#if DT_HAS_AMX
    if (isa == DT_AMX_INT8) return &dt_kernels_amx;
#endif
    if (isa == DT_AVX512) return &dt_kernels_avx512;
    return isa == DT_AVX2 ? &dt_kernels_avx2 : &dt_kernels_portable;
}
#else
static int32_t find_best(void) { return DT_PORTABLE; }
static const dt_kernels *kernels_of(int32_t isa) { (void)isa; return &dt_kernels_portable; }
#endif

int32_t dt_best_isa(void)
{
    static atomic_int found; /* + 1; asking twice does no harm */
    if (!atomic_load(&found)) atomic_store(&found, find_best() + 1);
    return atomic_load(&found) - 1;
}

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
