/* The kernels for portable. */
#define DT_ISA 0
#define DT_KERNELS dt_kernels_portable
#define DT_PACK dt_pack_portable
#include "kernels.h"
#include "pack_kernels.h"
