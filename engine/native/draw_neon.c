/* The sampler's kernels for NEON. */
#include "internal.h"
#if DT_HAS_128
#define DT_ISA 3
#define DT_DRAW dt_draw_neon
#include "sampling.h"
#endif
