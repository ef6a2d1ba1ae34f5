/* The kernels for avx512. */
#include "target.h"
#if defined(__x86_64__)
DT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c")
#define DT_ISA 2
#define DT_KERNELS dt_kernels_avx512
#define DT_PACKERS dt_packers_avx512
#include "kernels.h"
#include "pack_kernels.h"
#include "repack_kernels.h"
DT_TARGET_END
#endif
