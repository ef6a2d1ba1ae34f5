/* The kernels for avx2. */
#include "target.h"
#if defined(__x86_64__)
DT_TARGET_BEGIN("avx2,fma,f16c")
#define DT_ISA 1
#define DT_KERNELS dt_kernels_avx2
#define DT_PACKERS dt_packers_avx2
#include "kernels.h"
#include "pack_kernels.h"
#include "repack_kernels.h"
DT_TARGET_END
#endif
