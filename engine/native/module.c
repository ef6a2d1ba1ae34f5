/* The ordinary installation builds the library as an extension module, and some linkers ask such a
 * module for this function. Nobody imports it: duotail.h is called through ctypes, which gives up
 * the GIL around every call. So no Python headers are needed to build. */
#include "duotail.h"

DT_API void *PyInit__native(void);
void *PyInit__native(void) { return 0; }
