/* For building llama.cpp with GCC on processors with AMX; put before every file with -include.
 *
 * GCC 12's <amxtileintrin.h> says that loading a tile configuration reads 8 bytes. It reads 64, so
 * GCC drops llama.cpp's stores to the rest as useless, and the processor refuses what it finds
 * there: llama.cpp ends with a segmentation fault at its first forward over two or more tokens.
 */
#if defined(__GNUC__) && !defined(__clang__) && defined(__AMX_TILE__)
#include <immintrin.h>

static inline __attribute__((always_inline)) void load_whole_tile_config(const void *config)
{
    __asm__ volatile("ldtilecfg\t%0" ::"m"(*(const char(*)[64])config));
}

#undef _tile_loadconfig
#define _tile_loadconfig load_whole_tile_config
#endif
