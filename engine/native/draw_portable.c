/* The sampler's kernels for portable. */
#define DT_ISA 0
#define DT_DRAW dt_draw_portable
#include "sampling.h"
