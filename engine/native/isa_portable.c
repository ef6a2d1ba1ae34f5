/* The kernels for portable. */
#define DT_ISA 0
#define DT_KERNELS dt_kernels_portable
#define DT_PACKERS dt_packers_portable
#include "kernels.h"
#include "pack_kernels.h"
#include "repack_kernels.h"
