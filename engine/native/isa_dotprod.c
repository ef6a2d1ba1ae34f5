/* The kernels for NEON with dot products of bytes (SDOT). */
#include "target.h"
#if defined(__aarch64__)
#if defined(__clang__)
#define EXTENSIONS "dotprod"
#else
#define EXTENSIONS "arch=armv8.2-a+dotprod"
#endif
DT_TARGET_BEGIN(EXTENSIONS)
#define DT_ISA 3
#define DT_SDOT
#define DT_KERNELS dt_kernels_dotprod
#include "kernels.h"
DT_TARGET_END
#endif
