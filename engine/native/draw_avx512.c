/* The sampler's kernels for avx512. */
#include "internal.h"
#include "target.h"
#if DT_HAS_512
DT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#define DT_ISA 2
#define DT_DRAW dt_draw_avx512
#include "sampling.h"
DT_TARGET_END
#endif
