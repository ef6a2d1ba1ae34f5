/* The kernels for avx2 with AVX-VNNI: dot products of bytes and of words in registers of 256 bits. */
#include "internal.h"
#include "target.h"
#if DT_HAS_AVX_VNNI
DT_TARGET_BEGIN("avx2,fma,f16c,avxvnni")
#define DT_ISA 1
#define DT_VNNI
#define DT_KERNELS dt_kernels_avx_vnni
#include "kernels.h"
DT_TARGET_END
#endif
