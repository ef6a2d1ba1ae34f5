"""Find a finished native library for this machine, built from exactly these sources.

Wheels that `packaging/wheels.py` builds, or that a release offers, lie in `dist/`. Each one's
library names the sources that it was built from. Plain standard library; it parses on old Python.
"""

import platform
import sys
import zipfile
from pathlib import Path

from native_library import LIBRARY, ROOT, sources_digest


def prebuilt_library(root: Path = ROOT) -> "bytes | None":
    """Return the library of a wheel in `dist/` for this machine and these sources; None: none."""
    mark = ("duotail sources " + sources_digest(root)).encode()
    for file in sorted((root / "dist").glob("*.whl")):
        if not any(map(runs_here, file.stem.split("-")[-1].split("."))):
            continue
        try:
            with zipfile.ZipFile(str(file)) as wheel:
                library = wheel.read("engine/" + LIBRARY)
        except (KeyError, OSError, zipfile.BadZipFile):
            continue  # a wheel without a library, or half a download
        if mark in library:
            return library
    return None


def runs_here(tag: str) -> bool:
    """Tell whether libraries of a wheel's platform tag can be loaded on this machine."""
    machine = platform.machine().lower()
    if sys.platform == "win32":
        return tag == "win_" + machine
    if sys.platform == "darwin":
        return tag.startswith("macosx_") and tag.endswith(("_" + machine, "_universal2"))
    glibc = platform.libc_ver()[0] == "glibc"
    return glibc and tag.startswith("manylinux") and tag.endswith("_" + machine)
