/* Everything that computes, written once and compiled once per instruction set.
 *
 * isa_*.c includes this with DT_ISA and DT_KERNELS set; it defines one table of functions.
 */
#include "internal.h"
#include "vector.h"

enum { MOST_ROWS = 8 }; /* whose sums fit the registers; divides DT_TILE_ROWS */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* A number of rows known to the compiler keeps the sums in registers. */
#define FOR_ALL_ROWS(DO) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8)

#include "rows.h"
#include "products.h"
#include "attention.h"

const dt_kernels DT_KERNELS = {quantise, multiply, rms_norm, gated, to_half, attend_chunk};
