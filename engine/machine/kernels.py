"""What an accelerator needs so that products go through kernels, which read weights as they are.

Without them every weight is widened before it is multiplied, which moves some fifty times as much.
Triton comes with torch's builds for NVIDIA, AMD and Intel on Linux; at a kernel's first start it
compiles a small library against Python's headers. DUOTAIL_KERNELS=off leaves the kernels out, for
tests and for tracking down wrong numbers.
"""

from __future__ import annotations

import os
import re
import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from engine.language import tr
from engine.machine.facts import Vendor

_MAKERS = (Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL)
_LEAST_CAPABILITY = (8, 0)  # of NVIDIA's: copies ahead of the arithmetic
_MATRIX_UNITS = re.compile(r"gfx(908|90a|94\w|950|11\w\w|12\w\w)")
"""AMD's with them: on others a product of tiles takes more registers than there are."""


def reason_against_kernels(vendor: Vendor, architecture: str) -> str:
    """Return why there are no kernels for a device, a sentence; empty where there are.

    Args:
        vendor: of the device.
        architecture: "8.6" of NVIDIA's, "gfx1100" of AMD's; empty where nobody tells.
    """
    if vendor not in _MAKERS:
        return tr("There are no kernels for this kind of device.")
    if os.environ.get("DUOTAIL_KERNELS", "").lower() == "off":
        return tr("Kernels are switched off by DUOTAIL_KERNELS.")
    if vendor is Vendor.NVIDIA and architecture:
        if tuple(map(int, architecture.split("."))) < _LEAST_CAPABILITY:
            return tr("Kernels need compute capability {least}; this GPU has {found}.").format(
                least="{}.{}".format(*_LEAST_CAPABILITY), found=architecture
            )
    elif vendor is Vendor.AMD and architecture and not _MATRIX_UNITS.fullmatch(architecture):
        return tr("Kernels need matrix units; this GPU ({found}) has none.").format(
            found=architecture
        )
    return _what_is_missing()


def _what_is_missing() -> str:
    if find_spec("triton") is None:
        return tr("Triton is not installed.")
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    if not any(map(shutil.which, compilers)):
        return tr("Triton needs a C compiler, and there is none ({names}).").format(
            names=", ".join(compilers)
        )
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").is_file():
        return tr("Triton needs Python's headers, and {folder} has none.").format(folder=headers)
    return ""
