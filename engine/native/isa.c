/* Which instruction set is used: the best there is, unless a test forces another. */
#include "draw.h"
#include "pack_job.h"

#include <stdatomic.h>

/* Tiles and dot products serve the forward alone. */
static const dt_isa_table tables[DT_ISAS] = {
    [DT_PORTABLE] = {&dt_kernels_portable, &dt_draw_portable, &dt_packers_portable},
#if defined(__x86_64__)
    [DT_AVX2] = {&dt_kernels_avx2, &dt_draw_avx2, &dt_packers_avx2},
    [DT_AVX512] = {&dt_kernels_avx512, &dt_draw_avx512, &dt_packers_avx512},
#endif
#if DT_HAS_AVX_VNNI
    [DT_AVX_VNNI] = {&dt_kernels_avx_vnni, &dt_draw_avx2, &dt_packers_avx2},
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

#if defined(__x86_64__)
#include <cpuid.h>

/* AVX-VNNI; whether the system keeps its registers is known of AVX2's, which are the same. */
static int has_dots(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && a >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> 4 & 1;
}
#endif

#if DT_HAS_AMX
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

int32_t dt_has_isa(int32_t isa)
{
    static _Atomic(uint32_t) found; /* asking twice does no harm */
    if (!atomic_load(&found)) atomic_store(&found, find_all());
    return isa >= 0 && isa < DT_ISAS && atomic_load(&found) >> isa & 1 && tables[isa].forward;
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
