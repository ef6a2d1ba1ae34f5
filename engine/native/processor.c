/* Which instruction sets the processor and the system have, of those that this compiler can build.
 *
 * It stands alone: the set-up compiles this file first and asks it what else to compile. */
#include "internal.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <cpuid.h>

#if DT_KNOWS_AVX_VNNI
/* AVX-VNNI; whether the system keeps its registers is known of AVX2's, which are the same. */
static int has_dots(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}
#else
static int has_dots(void) { return 0; }
#endif
#endif

#if DT_KNOWS_AMX
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

/* One bit for each instruction set that the processor and the system have. */
static uint32_t find_all(void)
{
    uint32_t all = 1u << DT_PORTABLE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        all |= 1u << DT_AVX2;
        if (has_dots()) all |= 1u << DT_AVX_VNNI;
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vnni")) {
        all |= 1u << DT_AVX512;
        if (has_tiles()) all |= 1u << DT_AMX_INT8;
    }
#elif defined(__aarch64__)
    all |= 1u << DT_NEON;
    if (has_dot_products()) {
        all |= 1u << DT_DOTPROD;
        if (has_matrix_products()) all |= 1u << DT_I8MM;
    }
#endif
    return all;
}

uint32_t dt_processor_isas(void)
{
    static _Atomic(uint32_t) found; /* asking twice does no harm */
    if (!atomic_load(&found)) atomic_store(&found, find_all());
    return atomic_load(&found);
}
