#!/bin/sh
# GCC for processors that have AVX-512 VNNI but no AVX-VNNI: kernels for the latter run there, too, once its
# instructions are encoded as those of AVX-512. Nothing else changes, registers included. What asks the
# processor is told that it has AVX-VNNI. The compiler's own output lies beside the object, as FILE.o.s.
#     CC=tests/packaging/vnni_as_evex.sh .venv/bin/python packaging/native_library.py --all
set -e
source='' object='' before=''
for word; do
    case $word in */processor.c | */isa_avx_vnni.c) source=$word ;; -E | --version) exec gcc "$@" ;; esac
    [ "$before" != -o ] || object=$word
    before=$word
done
case $source in
*/isa_avx_vnni.c)
    gcc "$@" -S
    mv "$object" "$object.s"
    sed 's/{vex}/{evex}/' "$object.s" | gcc -c -x assembler - -o "$object"
    ;;
*/processor.c)
    cat >"$object.h" <<'END'
#include <cpuid.h>
static int claimed(unsigned leaf, unsigned part, unsigned *a, unsigned *b, unsigned *c, unsigned *d)
{
    const int known = __get_cpuid_count(leaf, part, a, b, c, d);
    if (leaf == 7 && part == 1) *a |= 1u << 4;
    return known;
}
#define __get_cpuid_count claimed
END
    gcc -include "$object.h" "$@"
    ;;
*) gcc "$@" ;;
esac
