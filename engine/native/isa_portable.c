/* The kernels for portable. */
#define DT_ISA 0
#define DT_KERNELS dt_kernels_portable
#include "kernels.h"
