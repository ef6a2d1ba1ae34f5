"""Shader sources, one idea a file, and how a kernel's are put together.

A file takes what it calls from the files beside it in a kernel. Lines between `// each row` and
`// end` are repeated for each of a kernel's rows, with the row's number for every `$`. For more
than LARGEST_TILE rows, NAME_wide serves in place of a kernel's last file, and repeats for every
eighth of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from engine.backend.webgpu.sizes import LARGEST_TILE

_EACH_ROW = re.compile(r"^[ ]*// each row\n(.*?)^[ ]*// end\n", re.MULTILINE | re.DOTALL)
_BINDING = re.compile(r"@binding\((\d+)\) var<(uniform|storage, read_write|storage, read)>")


@cache
def _text(name: str) -> str:
    return files(__name__).joinpath(f"{name}.wgsl").read_text("utf-8")


def assembled(names: Sequence[str], rows: int) -> str:
    """Return the source of a kernel that works on so many rows at once."""
    if rows > LARGEST_TILE:
        names, rows = (*names[:-1], f"{names[-1]}_wide"), rows // 8
    text = "\n".join([f"const ROWS = {rows}u;\n", *map(_text, names)])
    return _EACH_ROW.sub(
        lambda found: "".join(found[1].replace("$", str(row)) for row in range(rows)), text
    )


def bindings(names: Sequence[str]) -> dict[int, str]:
    """Return the kind of each binding of a kernel: uniform, storage or read-only-storage."""
    kinds = {
        "uniform": "uniform",
        "storage, read": "read-only-storage",
        "storage, read_write": "storage",
    }
    found = _BINDING.findall("".join(map(_text, names)))
    return {int(number): kinds[kind] for number, kind in sorted(found)}
