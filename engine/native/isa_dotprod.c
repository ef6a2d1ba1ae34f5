/* The kernels for NEON with dot products of bytes (SDOT). */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#define DT_ISA 3
#define DT_SDOT
#define DT_KERNELS dt_kernels_dotprod
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
