"""Build an AppImage of the folder that packaging/portable.py made.

    .venv/bin/python packaging/appimage.py FOLDER [--runtime FILE] [--to FILE.AppImage]

The runtime is the small program that mounts the rest of the file and starts it. The AppImage
project publishes it; it is downloaded and its sum checked, unless --runtime or
DUOTAIL_APPIMAGE_RUNTIME names one, as a distribution builds it of the sources
(https://github.com/AppImage/type2-runtime). `mksquashfs` (Debian: squashfs-tools) packs.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import desktop_files
from told import SetupProblem, say

_RUNTIME = "https://github.com/AppImage/type2-runtime/releases/download/20251108/runtime-x86_64"
_SHA256 = "2fca8b443c92510f1483a883f60061ad09b46b978b2631c807cd873a47ec260d"
_LARGEST = 1 << 24
_PATIENCE_S = 30
NAMED = "DUOTAIL_APPIMAGE_RUNTIME"
_MAGIC = b"AI\x02"
"""At byte 8 of an AppImage of type 2, where ELF has nothing to say."""


def runtime(folder: Path) -> Path:
    """The runtime that the environment names, or the published one, downloaded into `folder`.

    Raises:
        SetupProblem: it cannot be had, or is another one.
    """
    named = os.environ.get(NAMED)
    if named:
        return Path(named)
    file = folder / "runtime-x86_64"
    say(f"downloading {_RUNTIME}")
    try:
        with urllib.request.urlopen(_RUNTIME, timeout=_PATIENCE_S) as response:
            content = response.read(_LARGEST)
    except OSError as error:
        raise SetupProblem(
            f"The runtime of AppImages cannot be downloaded ({error}). Name one in {NAMED}."
        ) from error
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise SetupProblem(f"{_RUNTIME} is not the expected file.")
    file.write_bytes(content)
    return file


def build(folder: Path, runtime: Path, file: Path) -> None:
    """Build the file.

    Raises:
        SetupProblem: `mksquashfs` is missing or fails.
    """
    if not shutil.which("mksquashfs"):
        raise SetupProblem("mksquashfs is missing: sudo apt install squashfs-tools")
    with tempfile.TemporaryDirectory(dir=file.parent) as made:
        tree, packed = Path(made, "tree"), Path(made, "packed")
        shutil.copytree(folder, tree / "usr/lib/duotail", symlinks=True)
        shutil.rmtree(tree / "usr/lib/duotail/share", ignore_errors=True)
        desktop_files.write(tree / "usr/share")
        (tree / "AppRun").symlink_to("usr/lib/duotail/duotail")
        (tree / "duotail.desktop").symlink_to("usr/share/applications/duotail.desktop")
        for name in ("duotail.svg", ".DirIcon"):
            (tree / name).symlink_to("usr/share/icons/hicolor/scalable/apps/duotail.svg")
        options = ["-root-owned", "-noappend", "-no-progress", "-quiet", "-comp", "zstd"]
        if subprocess.run(["mksquashfs", str(tree), str(packed), *options]).returncode:
            raise SetupProblem("mksquashfs failed.")
        head = bytearray(runtime.read_bytes())
        head[8:11] = _MAGIC
        file.write_bytes(bytes(head) + packed.read_bytes())
    file.chmod(0o755)


def main() -> int:
    """Build the file; 0 when it is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runtime", type=Path)
    parser.add_argument("--to", type=Path)
    options = parser.parse_args()
    name = f"duotail-{desktop_files.version()}-x86_64.AppImage"
    file = options.to or desktop_files.ROOT / "dist" / name
    try:
        with tempfile.TemporaryDirectory() as made:
            build(options.folder, options.runtime or runtime(Path(made)), file)
    except SetupProblem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    sys.stdout.write(f"{file}, {file.stat().st_size / 1e6:.1f} MB\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
