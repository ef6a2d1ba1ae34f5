/* The kernels for NEON, which every 64-bit ARM has. */
#if defined(__aarch64__)
#define DT_ISA 3
#define DT_KERNELS dt_kernels_neon
#define DT_PACKERS dt_packers_neon
#include "kernels.h"
#include "pack_kernels.h"
#include "repack_kernels.h"
#endif
