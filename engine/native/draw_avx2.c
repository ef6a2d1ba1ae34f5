/* The sampler's kernels for avx2. */
#include "internal.h"
#include "target.h"
#if DT_HAS_256
DT_TARGET_BEGIN("avx2,fma,f16c")
#define DT_ISA 1
#define DT_DRAW dt_draw_avx2
#include "sampling.h"
DT_TARGET_END
#endif
