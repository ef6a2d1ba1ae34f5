/* The kernels for avx2. */
#include "internal.h"
#include "target.h"
#if DT_HAS_AVX2
DT_TARGET_BEGIN("avx2,fma,f16c")
#define DT_ISA 1
#define DT_KERNELS dt_kernels_avx2
#include "kernels.h"
DT_TARGET_END
#endif
