/* The kernels for avx512 with AMX tiles of int8, and GFNI. */
#include "internal.h"
#include "target.h"
#if DT_HAS_AMX
DT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,f16c,gfni,amx-tile,amx-int8")
#define DT_ISA 2
#define DT_AMX
#define DT_KERNELS dt_kernels_amx
#include "kernels.h"
DT_TARGET_END
#endif
