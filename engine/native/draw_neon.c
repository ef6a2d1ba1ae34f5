/* The sampler's kernels for NEON. */
#if defined(__aarch64__)
#define DT_ISA 3
#define DT_DRAW dt_draw_neon
#include "sampling.h"
#endif
