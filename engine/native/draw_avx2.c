/* The sampler's kernels for avx2. */
#if defined(__x86_64__)
#pragma GCC target("avx2,fma,f16c")
#define DT_ISA 1
#define DT_DRAW dt_draw_avx2
#include "sampling.h"
#endif
