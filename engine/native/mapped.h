/* Mapped files that may become shorter. */
#ifndef DUOTAIL_MAPPED_H
#define DUOTAIL_MAPPED_H

#include "duotail.h"

/* Watch a mapped file's memory: pages that the file loses read as zeros instead of ending the process.
 * DT_NO_MEMORY where too many are watched; then it stays as it was. End it before the memory is unmapped. */
DT_API int32_t dt_watch(const void *start, int64_t bytes);
DT_API void dt_unwatch(const void *start);

/* Pages that mappings watched now have lost. */
DT_API int32_t dt_lost_pages(void);

#endif
