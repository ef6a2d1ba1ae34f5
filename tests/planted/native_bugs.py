"""Planted bugs of the native library, in C; see `bugs`."""

from __future__ import annotations

import subprocess
from pathlib import Path
from tempfile import mkdtemp

_FLAGS = ("-std=c11", "-O1", "-w", "-fPIC", "-shared", "-ffp-contract=off", "-D_GNU_SOURCE")
_TABLES = ("kernels", "draw", "packers")
_OTHER_SETS = ("avx2", "avx_vnni", "avx512", "amx", "neon", "dotprod", "i8mm")


def rows_between_stretches_nobodys() -> None:
    """Block rows that do not divide by threads are left over, and no thread multiplies them."""
    plant("project.c", "(int32_t)(all * (stretch + 1) / job->stretches)",
           "from + (int32_t)(all / job->stretches)")  # fmt: skip


def what_a_wider_head_has_left() -> None:
    """Behind a head's numbers, those of a block with wider heads take part in its norm."""
    plant("attend.c", "for (int32_t i = dim; i < f->dim; i++) y[i] = 0;", ";")


def plant(name: str, honest: str, wrong: str) -> None:
    """Use a library in which one line of a source differs.

    Portable kernels stand for those of every instruction set: they take seconds to compile.
    """
    from engine.backend.native import library

    sources = Path(library.__file__).parents[2] / "native"
    text = (sources / name).read_text()
    assert text.count(honest) == 1
    folder = Path(mkdtemp(prefix="duotail-planted-"))
    (folder / name).write_text(text.replace(honest, wrong))
    others = [
        source
        for source in sources.glob("*.c")
        if source.name != name and not source.stem.endswith(_OTHER_SETS)
    ]
    portable = [
        f"-Ddt_{table}_{other}=dt_{table}_portable" for table in _TABLES for other in _OTHER_SETS
    ]
    out = folder / library.FILE.name
    files = map(str, (folder / name, *others))
    command = ["gcc", *_FLAGS, *portable, f"-I{sources}", *files, "-o", str(out)]
    subprocess.run([*command, "-lm", "-lpthread"], check=True)
    library.FILE = out
