/* The packers for avx2. */
#include "internal.h"
#include "target.h"
#if DT_HAS_256
DT_TARGET_BEGIN("avx2,fma,f16c")
#define DT_ISA 1
#define DT_PACKERS dt_packers_avx2
#include "pack_kernels.h"
#include "repack_kernels.h"
DT_TARGET_END
#endif
