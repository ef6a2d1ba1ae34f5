"""Find a finished native library for this machine, built from exactly these sources.

Wheels that `packaging/wheels.py` builds, or that a release offers, lie in `dist/`. Each one's
library names the sources that it was built from. Plain standard library; it parses on old Python.
"""

import hashlib
import platform
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "_native.pyd" if sys.platform == "win32" else "_native.abi3.so"
# Windows' stacks lie at 16-byte borders, and MinGW's GCC stores wider registers there as well.
UNALIGNED = "-Wa,-muse-unaligned-vector-move"
BUILD_SECTION = "[[tool.setuptools.ext-modules]]"


def sources_digest(root: Path = ROOT) -> str:
    """Return a digest of the C sources and of what the compiler is told."""
    project = _text(root / "pyproject.toml").partition(BUILD_SECTION)[2]
    digest = hashlib.sha256(project.partition("\n[tool.")[0].encode())
    for file in sorted((root / "engine" / "native").glob("*.[ch]")):
        digest.update((file.name + "\n" + _text(file)).encode())
    return digest.hexdigest()


def _text(file: Path) -> str:
    return file.read_bytes().decode().replace("\r\n", "\n")


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
