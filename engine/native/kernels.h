/* Everything that computes, written once and compiled once per instruction set.
 *
 * isa_*.c includes this with DT_ISA and DT_KERNELS set; it defines one table of functions.
 */
#include "internal.h"
#include "vector.h"

#define ALWAYS_INLINE DT_INLINE
#define OUT_OF_LINE __attribute__((noinline))

#include "bytes.h"
#include "rows.h"
#include "delta_rows.h"
#include "blocks.h"
#ifdef DT_AMX
#include "tiles.h"
#else
#include "products.h"
#include "attention.h"
#include "attention8.h"
#endif
#include "lanes.h"

const dt_kernels DT_KERNELS = {
    quantise, multiply, rms_norm, silu, blend, {gated_silu, gated_gelu_tanh, gated_swiglu_oai}, exponentials,
    convolve, unit, delta_gates, delta_step, softcap, to_half, to_bytes, to_words, {attend_chunk, attend_chunk8}, lanes,
};
