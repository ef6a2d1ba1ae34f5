/* The kernels for NEON with dot products (SDOT) and matrix products (SMMLA) of bytes. */
#include "internal.h"
#include "target.h"
#if DT_HAS_I8MM
DT_TARGET_BEGIN("arch=armv8.2-a+dotprod+i8mm")
#define DT_ISA 3
#define DT_SDOT
#define DT_SMMLA
#define DT_KERNELS dt_kernels_i8mm
#include "kernels.h"
DT_TARGET_END
#endif
