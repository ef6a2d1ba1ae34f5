"""Puts together what a machine without network lacks: packages, our library, a Vulkan loader."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from native_library import LIBRARY, BuildFailed, Compiler, build
from prebuilt import prebuilt_library
from wheels import TARGETS, Problem, find_compiler

from card.brought import LIBRARIES, NATIVE, WHEELS
from card.steps import ROOT

PACKAGES = ("platformdirs", "wgpu", "rendercanvas", "cffi", "pycparser", "gguf")
"""What the engine and its tests import beside torch, transformers, pytest and what these bring."""
PYTHON, PLATFORMS = "3.12", ("2_39", "2_34", "2_31", "2_28", "2_27", "2_24", "2_17", "2014")
DEBIAN = (
    *("libvulkan1", "libx11-6", "libxext6", "libxcb1", "libxau6", "libxdmcp6", "libbsd0", "libmd0"),
    *("libglvnd0", "libegl1"),
)
"""Packages of the loader, and of what NVIDIA's driver is linked to."""
MOST = 60 << 20
"""Bytes of the tree with its bundle."""


def make(folder: Path) -> int:
    """Fill the folder; 0 where all of it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in (WHEELS, LIBRARIES):
        shutil.rmtree(folder / part, ignore_errors=True)
    try:
        _wheels(folder / WHEELS)
        _native(folder / NATIVE)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{error}\n{error.stderr}\n")
        return 1
    except (Problem, BuildFailed) as error:
        sys.stderr.write(f"The native library cannot be built: {error}\n")
        return 1
    try:
        _libraries(folder / LIBRARIES)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.stderr.write(
            f"No Vulkan loader was packed ({error}): where the machine has none, WebGPU's steps "
            f"are skipped. On Debian this downloads {', '.join(DEBIAN)}; another system's "
            f"libvulkan.so.1 can be put into {folder / LIBRARIES} by hand.\n"
        )
    return _say(folder)


def _say(folder: Path) -> int:
    brought, tree = _bytes(folder.rglob("*")), _tree_bytes()
    for part in sorted(folder.iterdir()):
        inside = _bytes([part, *part.rglob("*")])
        sys.stdout.write(f"{part.name:12} {inside / (1 << 20):6.1f} MiB\n")
    sys.stdout.write(f"{'the tree':12} {tree / (1 << 20):6.1f} MiB\n")
    sys.stdout.write(f"{'together':12} {(tree + brought) / (1 << 20):6.1f} MiB\n\n")
    sys.stdout.write(f"There: python3 packaging/gpu_check.py --with {folder} --out DIR\n")
    if tree + brought > MOST:
        sys.stderr.write(f"That is more than {MOST >> 20} MiB.\n")
        return 1
    return 0


def _wheels(folder: Path) -> None:
    folder.mkdir()
    pins = (ROOT / "packaging" / "constraints.txt").read_text()
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--python-version", PYTHON, "--implementation", "cp", "-d", str(folder)]
    for version in PLATFORMS:
        command += ["--platform", f"manylinux{'' if version == '2014' else '_'}{version}_x86_64"]
    wanted = [_pinned(name, pins) for name in PACKAGES]
    subprocess.run([*command, *wanted], check=True, capture_output=True, text=True)


def _pinned(name: str, pins: str) -> str:
    found = re.search(rf"(?im)^{re.escape(name)}==\S+", pins)
    return found[0] if found else name


def _native(packed: Path) -> None:
    """Pack a library with every instruction set: a wheel's, or one built now from kept objects.

    Raises:
        Problem, BuildFailed: there is no compiler, or it could not do it.
    """
    library = prebuilt_library()
    if library is None:
        target = TARGETS["linux-x86_64"]
        told = Compiler((find_compiler(target),), target.compile, ("-s", *target.link))
        with tempfile.TemporaryDirectory(prefix="duotail-bundle-") as folder:
            built = Path(folder) / LIBRARY
            build(built, told)
            library = built.read_bytes()
    packed.write_bytes(gzip.compress(library, 9))


def _libraries(folder: Path) -> None:
    """Take libraries out of Debian's packages; no package is installed."""
    folder.mkdir()
    with tempfile.TemporaryDirectory(prefix="duotail-bundle-") as scratch:
        subprocess.run(
            ["apt-get", "download", "-q", *DEBIAN],
            cwd=scratch, check=True, capture_output=True, text=True,
        )  # fmt: skip
        for package in Path(scratch).glob("*.deb"):
            unpacked = Path(scratch) / package.stem
            subprocess.run(
                ["dpkg-deb", "-x", str(package), str(unpacked)], check=True, capture_output=True
            )
            for path in unpacked.rglob("*.so.*"):
                if path.is_file():  # what links point to, under the name that is asked for
                    name = re.sub(r"(\.so\.\d+).*", r"\1", path.name)
                    shutil.copyfile(path, folder / name)


def _tree_bytes() -> int:
    """Bytes of tracked files, and of untracked ones that are not ignored."""
    told = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return _bytes(ROOT / name for name in told.stdout.split("\0") if name)


def _bytes(paths: Iterable[Path]) -> int:
    return sum(path.stat().st_size for path in paths if path.is_file())
