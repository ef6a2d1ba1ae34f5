/* The packers for NEON, which every 64-bit ARM has. */
#include "internal.h"
#if DT_HAS_128
#define DT_ISA 3
#define DT_PACKERS dt_packers_neon
#include "pack_kernels.h"
#include "repack_kernels.h"
#endif
