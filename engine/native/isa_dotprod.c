/* The kernels for NEON with dot products of bytes (SDOT). */
#include "internal.h"
#include "target.h"
#if DT_HAS_DOTPROD
DT_TARGET_BEGIN("arch=armv8.2-a+dotprod")
#define DT_ISA 3
#define DT_SDOT
#define DT_KERNELS dt_kernels_dotprod
#include "kernels.h"
DT_TARGET_END
#endif
