/* Functions between DT_TARGET_BEGIN("...") and DT_TARGET_END are compiled for these extensions of the
 * instruction set, whatever the rest of the library is compiled for. GCC and clang have pragmas of their own
 * for it. The compiler's headers come first: their functions say themselves what they need. */
#ifndef DUOTAIL_TARGET_H
#define DUOTAIL_TARGET_H

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define DT_PRAGMA(words) _Pragma(#words)
#if defined(__clang__)
#define DT_TARGET_BEGIN(extensions) \
    DT_PRAGMA(clang attribute push(__attribute__((target(extensions))), apply_to = function))
#define DT_TARGET_END DT_PRAGMA(clang attribute pop)
#else
#define DT_TARGET_BEGIN(extensions) DT_PRAGMA(GCC push_options) DT_PRAGMA(GCC target(extensions))
#define DT_TARGET_END DT_PRAGMA(GCC pop_options)
#endif

#endif
