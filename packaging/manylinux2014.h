/* Symbols as the oldest Linux of the wheels has them (glibc 2.17, manylinux2014), for a build on a newer one.
 * packaging/wheels.py includes it in front of every source; auditwheel tells what is missing here. */
#if defined(__x86_64__)
#define GLIBC "GLIBC_2.2.5"
#else
#define GLIBC "GLIBC_2.17"
#endif
#define OLD(name) __asm__(".symver " #name "," #name "@" GLIBC);
OLD(exp)
OLD(pthread_create)
OLD(pthread_join)
OLD(pthread_once)
#undef OLD
#undef GLIBC
