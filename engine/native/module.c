/* How the library is loaded: as an extension module, and what a loader has to compare first. */
#include "draft.h"

#include <stddef.h>

/* The ordinary installation builds the library as an extension module, and some linkers ask such a
 * module for this function. Nobody imports it: the library is called through ctypes, which gives up
 * the GIL around every call. So no Python headers are needed to build. */
DT_API void *PyInit__native(void);
void *PyInit__native(void) { return 0; }

/* Which sources it was built from, for packaging/prebuilt.py, which looks for these bytes. */
#if defined(DT_SOURCES)
DT_API const char dt_sources[];
const char dt_sources[] = "duotail sources " DT_SOURCES;
#endif

#define SIZES                                                                                      \
    sizeof(dt_matrix), sizeof(dt_mlp), sizeof(dt_experts), sizeof(dt_delta), sizeof(dt_block),     \
        sizeof(dt_rope), sizeof(dt_fusion), sizeof(dt_segment), sizeof(dt_step), sizeof(dt_sampling),               \
        sizeof(dt_verification), sizeof(dt_drafting), sizeof(dt_candidate)

const int32_t *dt_abi(void)
{
    static const int32_t abi[] = {
        DT_ABI_VERSION, sizeof((size_t[]){SIZES}) / sizeof(size_t), SIZES};
    return abi;
}
