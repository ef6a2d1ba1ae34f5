/* The packers for portable. */
#define DT_ISA 0
#define DT_PACKERS dt_packers_portable
#include "pack_kernels.h"
#include "repack_kernels.h"
