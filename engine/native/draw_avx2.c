/* The sampler's kernels for avx2. */
#include "target.h"
#if defined(__x86_64__)
DT_TARGET_BEGIN("avx2,fma,f16c")
#define DT_ISA 1
#define DT_DRAW dt_draw_avx2
#include "sampling.h"
DT_TARGET_END
#endif
