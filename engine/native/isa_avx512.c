/* The kernels for avx512. */
#include "internal.h"
#include "target.h"
#if DT_HAS_AVX512
DT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define DT_ISA 2
#define DT_KERNELS dt_kernels_avx512
#include "kernels.h"
DT_TARGET_END
#endif
