/* Everything that computes, written once and compiled once per instruction set.
 *
 * isa_*.c includes this with DT_ISA and DT_KERNELS set; it defines one table of functions.
 */
#include "internal.h"
#include "vector.h"

enum { MOST_ROWS = 8 }; /* of activations, together; divides DT_TILE_ROWS */

#define ALWAYS_INLINE DT_INLINE

/* A number of rows known to the compiler keeps the sums in registers. */
#define FOR_4_ROWS(DO) DO(1) DO(2) DO(3) DO(4)
#define FOR_ALL_ROWS(DO) FOR_4_ROWS(DO) DO(5) DO(6) DO(7) DO(8)

#include "bytes.h"
#include "rows.h"
#include "blocks.h"
#ifdef DT_AMX
#include "tiles.h"
#else
#include "products.h"
#endif
#include "attention.h"
#include "attention8.h"
#include "lanes.h"

const dt_kernels DT_KERNELS = {
    quantise, multiply, rms_norm, silu, blend, {gated_silu, gated_gelu_tanh, gated_swiglu_oai}, exponentials, softcap,
    to_half, to_bytes, to_words, {attend_chunk, attend_chunk8}, lanes,
};
