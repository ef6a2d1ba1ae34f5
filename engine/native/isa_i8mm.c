/* The kernels for NEON with dot products (SDOT) and matrix products (SMMLA) of bytes. */
#if defined(__aarch64__)
#include <arm_neon.h>
#include <math.h>
#include <string.h>
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod,i8mm"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod+i8mm")
#endif
#define DT_ISA 3
#define DT_SDOT
#define DT_SMMLA
#define DT_KERNELS dt_kernels_i8mm
#include "kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#endif
#endif
