/* The kernels for NEON, which every 64-bit ARM has. */
#include "internal.h"
#if DT_HAS_NEON
#define DT_ISA 3
#define DT_KERNELS dt_kernels_neon
#include "kernels.h"
#endif
