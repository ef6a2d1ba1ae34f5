"""Unpacks a bundle on a machine without network, and finds the Vulkan loader and the card's driver.

WebGPU reaches a card through Vulkan: a loader (libvulkan.so.1), which the bundle brings where the
system has none, and the driver, whose manifest names a library of its own.
"""

from __future__ import annotations

import ctypes.util
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from native_library import LIBRARY, is_current, sources_digest

from card.steps import ROOT

WHEELS, LIBRARIES, NATIVE = "wheels", "lib", "native.gz"
LOADER = "libvulkan.so.1"
_MANIFESTS = (
    *("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"),
    "/usr/local/nvidia/share/vulkan/icd.d",
)
_DRIVERS = ("libGLX_nvidia.so.0", "libEGL_nvidia.so.0")
"""NVIDIA's Vulkan driver under either name; the first one needs libraries of X11."""
_FOLDERS = (
    *("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/x86_64-linux-gnu"),
    *("/usr/lib/x86_64-linux-gnu/nvidia/current", "/usr/lib64", "/usr/lib/nvidia"),
)
_LOAD = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Brought:
    """What steps find beside the system's own: packages, folders of libraries, variables."""

    site: Path | None = None
    libraries: list[Path] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)


def unpack(bundle: Path | None, site: Path, tell: Tell) -> Brought:
    """Install a bundle's packages into the folder `site`, and the native library into the tree."""
    found = None
    if bundle is not None:
        wheels = [str(wheel) for wheel in sorted((bundle / WHEELS).glob("*.whl"))]
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "-q"]
        command += ["--no-compile", "--no-cache-dir", "--disable-pip-version-check"]
        done = subprocess.run(
            [*command, "--target", str(site), *wheels], capture_output=True, text=True
        )
        if done.returncode:
            tell(f"the bundle's packages cannot be installed: {done.stderr.strip()[-500:]}")
        found = site
        _bring_native(bundle / NATIVE, tell)
    libraries, variables = _vulkan(bundle, site.parent, tell)
    return Brought(found, libraries, variables)


def _bring_native(packed: Path, tell: Tell) -> None:
    """Put the bundle's native library into the tree where the tree has none for this processor."""
    target = ROOT / "engine" / LIBRARY
    mark = b"duotail sources " + sources_digest().encode()
    if is_current(target, all_sets=False):
        return
    if not packed.exists():
        tell("the bundle has no native library")
        return
    library = gzip.decompress(packed.read_bytes())
    if mark not in library:
        tell("the bundle's native library was built from other sources: make the bundle anew")
        return
    target.unlink(missing_ok=True)
    target.write_bytes(library)


def _vulkan(bundle: Path | None, scratch: Path, tell: Tell) -> tuple[list[Path], dict[str, str]]:
    """Return folders of libraries and variables with which Vulkan finds the card.

    The bundle's libraries come into play only where the system's do not do.
    """
    own = bundle / LIBRARIES if bundle is not None else None
    folders = [Path(each) for each in _FOLDERS if any((Path(each) / n).exists() for n in _DRIVERS)]
    driven = bool(folders) and "VK_DRIVER_FILES" not in os.environ
    loads = ctypes.util.find_library("vulkan") is not None
    refused = dict(_refused(folders)) if driven else {}
    if own is not None and (own / LOADER).exists() and (not loads or _DRIVERS[0] in refused):
        folders.append(own.resolve())
        refused, loads = dict(_refused(folders)) if driven else {}, True
    if not loads:
        tell(f"there is no Vulkan loader ({LOADER}; Debian: libvulkan1): WebGPU finds no card")
    for name, why in refused.items():
        tell(f"the driver's {name} cannot be loaded: {why}")
    usable = [name for name in _DRIVERS if name not in refused]
    if not driven or not usable:
        return folders, {}
    manifests = sorted(path for each in _MANIFESTS for path in Path(each).glob("*nvidia*.json"))
    given = manifests[-1:] if usable[0] == _DRIVERS[0] else []
    return folders, {"VK_DRIVER_FILES": str([*given, _manifest(scratch, usable[0])][0])}


def _refused(folders: Sequence[Path]) -> Iterator[tuple[str, str]]:
    """Yield the driver's libraries that cannot be loaded, and why."""
    paths = [*map(str, folders), os.environ.get("LD_LIBRARY_PATH", "")]
    variables = {**os.environ, "LD_LIBRARY_PATH": os.pathsep.join(filter(None, paths))}
    for name in _DRIVERS:
        done = subprocess.run(
            [sys.executable, "-c", _LOAD, name], env=variables, capture_output=True, text=True
        )
        if done.returncode:
            yield name, done.stderr.strip().rpartition("\n")[2]


def _manifest(scratch: Path, library: str) -> Path:
    """Write a manifest for a driver's library."""
    path = scratch / "nvidia_icd.json"
    told = {
        "file_format_version": "1.0.1",
        "ICD": {"library_path": library, "api_version": "1.4.0"},
    }
    path.write_text(json.dumps(told), "utf-8")
    return path
