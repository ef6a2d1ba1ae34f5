/* Which instruction set is used: the best there is, unless a test forces another. */
#include "draw.h"
#include "pack_job.h"

#include <stdatomic.h>

/* Tiles serve the forward's products alone, as do ARM's dot products; what else there is for AMX is
 * AVX-512. */
static const dt_isa_table tables[DT_ISAS] = {
    [DT_PORTABLE] = {&dt_kernels_portable, &dt_draw_portable, &dt_packers_portable},
#if defined(__x86_64__)
    [DT_AVX2] = {&dt_kernels_avx2, &dt_draw_avx2, &dt_packers_avx2},
    [DT_AVX512] = {&dt_kernels_avx512, &dt_draw_avx512, &dt_packers_avx512},
#endif
#if DT_HAS_AMX
    [DT_AMX_INT8] = {&dt_kernels_amx, &dt_draw_avx512, &dt_packers_avx512},
#endif
#if defined(__aarch64__)
    [DT_NEON] = {&dt_kernels_neon, &dt_draw_neon, &dt_packers_neon},
    [DT_DOTPROD] = {&dt_kernels_dotprod, &dt_draw_neon, &dt_packers_neon},
    [DT_I8MM] = {&dt_kernels_i8mm, &dt_draw_neon, &dt_packers_neon},
#endif
};

static _Atomic(const dt_isa_table *) active;

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
#elif defined(__x86_64__)
static int has_tiles(void) { return 0; }
#endif

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Bits of Linux's that older headers lack. */
static int has_dot_products(void) { return getauxval(AT_HWCAP) >> 20 & 1; }
static int has_matrix_products(void) { return getauxval(AT_HWCAP2) >> 13 & 1; }
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static int has_feature(const char *name)
{
    int32_t there = 0;
    size_t size = sizeof there;
    return !sysctlbyname(name, &there, &size, NULL, 0) && there;
}
static int has_dot_products(void) { return has_feature("hw.optional.arm.FEAT_DotProd"); }
static int has_matrix_products(void) { return has_feature("hw.optional.arm.FEAT_I8MM"); }
#elif defined(__aarch64__)
static int has_dot_products(void) { return 0; }
static int has_matrix_products(void) { return 0; }
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
#elif defined(__aarch64__)
static int32_t find_best(void) { return !has_dot_products() ? DT_NEON : has_matrix_products() ? DT_I8MM : DT_DOTPROD; }
#else
static int32_t find_best(void) { return DT_PORTABLE; }
#endif

int32_t dt_best_isa(void)
{
    static atomic_int found; /* + 1; asking twice does no harm */
    if (!atomic_load(&found)) atomic_store(&found, find_best() + 1);
    return atomic_load(&found) - 1;
}

int32_t dt_has_isa(int32_t isa) { return isa >= 0 && isa <= dt_best_isa() && tables[isa].forward; }

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
