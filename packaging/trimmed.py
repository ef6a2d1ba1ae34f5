"""Take out of a folder with Python, packages and Qt what Duotail never uses; list sizes by part.

What is taken out builds, checks or describes the packages, or belongs to modules of Qt that are not
imported. What the window imports is compiled ahead, so that it starts as fast as one that was
installed: nothing is written into the folder later.
"""

from __future__ import annotations

import importlib.util
import py_compile
import shutil
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path

import icu_data

NOT_OF_PYTHON = (
    *("test", "idlelib", "tkinter", "turtle*", "ensurepip", "lib2to3", "site-packages", "venv"),
    *("distutils", "pydoc_data", "curses", "__pycache__", "config-*", "_tkinter*.so", "_test*.so"),
    *("_ctypes_test*.so", "_curses*.so", "readline*.so", "nis*.so", "xx*.so", "_xx*.so"),
)
_NOT_OF_PACKAGES = (
    *("bin", "**/tests", "**/test", "**/include", "**/cmake", "**/*.dist-info/sboms"),
    *("**/*.pyi", "**/*.a", "**/*.c", "**/*.pyx", "**/*.pxd"),
    "hf_xet*",  # engine.hub.remote switches it off: what it fetches cannot be resumed
    *("tqdm/completion.sh", "gguf/scripts", "mcp/cli", "pydantic/mypy.py", "pydantic/v1"),
    *("numpy/f2py", "numpy/distutils", "numpy/_core/_simd*", "numpy/_core/*_tests*"),
    *(f"*.dist-info/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED", "WHEEL")),
    "*.dist-info/top_level*",
)
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
_SYSTEMS = (
    *("ld-linux", "libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libresolv.so"),
)
"""Libraries that come with the C library, of which there can be one only."""
_EVERYTHING = """
import app, contextlib, engine, pkgutil, sys
for package in (app, engine):
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        with contextlib.suppress(ImportError, SystemError):  # PyTorch; the library, no module
            __import__(module.name)
for module in list(sys.modules.values()):
    if (file := getattr(module, "__file__", None) or "").endswith(".py"):
        print(file)
"""
_WITH_SOURCES = ("app", "engine", "resources", "PySide6", "shiboken6")
MODELS = "models that draft"
"""The name of their part; a limit on size does not count them."""


def needed(files: Iterable[Path]) -> set[Path]:
    """Shared libraries that these files load, but for the C library's, as they are linked."""
    told = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True).stdout
    pairs = (line.split("=>") for line in told.splitlines() if "=> /" in line)
    found = {Path(right.split("(")[0].strip()) for _, right in pairs}
    return {path for path in found if not path.name.startswith(_SYSTEMS)}


def trim(packages: Path) -> None:
    """Trim the packages in this folder, Qt among them."""
    for pattern in _NOT_OF_PACKAGES:
        for path in list(packages.glob(pattern)):
            _remove(path)
    _trim_qt(packages / "PySide6")
    strip(_untouched(packages))


def strip(files: Iterable[Path]) -> None:
    """Take the symbols out of libraries that nobody looks into, where the tool is here."""
    if shutil.which("strip"):
        subprocess.run(["strip", "--strip-unneeded", *map(str, files)], check=True)


def _untouched(packages: Path) -> list[Path]:
    """Libraries that no tool has given others' libraries: stripped, such a one loads no more."""
    mended = {path.name.removesuffix(".libs") for path in packages.glob("*.libs")}
    mended |= {f"{name}.libs" for name in mended}
    return [
        path
        for path in packages.rglob("*.so*")
        if path.is_file() and path.relative_to(packages).parts[0] not in mended
    ]


def _trim_qt(pyside: Path) -> None:
    """Keep of Qt the modules in use, their plugins, and what either loads."""
    plugins = pyside / "Qt" / "plugins"
    for path in plugins.iterdir():
        if path.name not in _QT_PLUGINS:
            _remove(path)
    for folder, names in _QT_FILES.items():
        for path in (plugins / folder).iterdir():
            if not any(name in path.name for name in names):
                path.unlink()
    kept = [pyside / f"{name}.abi3.so" for name in _QT_MODULES]
    for path in [*pyside.iterdir(), *(pyside / "Qt").iterdir()]:
        wanted = path.name.startswith(("_", "lib")) and path.name != "libexec"
        if path not in kept and not wanted and path.name not in ("Qt", "plugins", "translations"):
            _remove(path)
    used = {file.name for file in needed([*kept, *plugins.glob("*/*.so")])}
    for path in (*(pyside / "Qt" / "lib").iterdir(), *pyside.glob("libpyside6*")):
        if path.name not in used:
            _remove(path)
    for path in (pyside / "Qt" / "lib").glob("libicudata.so.*"):
        icu_data.trim(path)
    for path in (pyside / "Qt" / "translations").iterdir():
        if path.name not in _QT_TRANSLATIONS:
            path.unlink()


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def compile_what_is_imported(folder: Path) -> int:
    """Compile ahead the modules of Duotail, and those in `folder` they import; return their number.

    Files of compiled modules name no time, as some ways of installing set one of their own. Those
    of other packages stand in the place of their sources; ours have them, for reports of errors.
    """
    folder = folder.resolve()
    command = [str(folder / "bin/python3"), "-I", "-B", "-c", _EVERYTHING]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    sources = [Path(line) for line in told.splitlines() if line.startswith(f"{folder}/")]
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for source in sources:
        name = str(source.relative_to(folder))
        instead = source.with_suffix(".pyc") if _of_others(source) else None
        cfile = None if instead is None else str(instead)
        py_compile.compile(str(source), cfile, name, doraise=True, invalidation_mode=mode)
        if instead:
            source.unlink()
    return len(sources)


def _of_others(source: Path) -> bool:
    """Tell whether a module is a package's; Qt's and Python's own stay as they are."""
    _, inside, rest = str(source).partition("/site-packages/")
    return bool(inside) and rest.split("/")[0] not in _WITH_SOURCES


def zip_library(library: Path) -> None:
    """Move Python's own modules into the zip file where Python looks first: a third of the bytes.

    What is compiled goes without its source; folders with libraries and packages stay.
    """
    stays = {library / "lib-dynload", library / "site-packages"}
    file = library.with_name(f"{library.name.replace('.', '')}.zip")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for source in sorted(library.rglob("*.py")):
            if stays.isdisjoint(source.parents):
                compiled = Path(importlib.util.cache_from_source(str(source)))
                if compiled.exists():
                    packed.write(compiled, source.relative_to(library).with_suffix(".pyc"))
                else:
                    packed.write(source, source.relative_to(library))
    for path in library.iterdir():
        if path not in stays:
            _remove(path)


def sizes(folder: Path, packages: Path) -> dict[str, int]:
    """Bytes on disk by part, the largest first."""
    own = ("app", "engine", "resources")
    parts = {path.name: nbytes(path) for path in packages.iterdir() if "-info" not in path.name}
    told = {MODELS: nbytes(packages / "resources" / "models")}
    told["Duotail"] = sum(parts.pop(name, 0) for name in own) - told[MODELS]
    told["Qt (PySide6, shiboken6)"] = sum(parts.pop(n, 0) for n in ("PySide6", "shiboken6"))
    large = {name: size for name, size in parts.items() if size > 2_000_000}
    told |= {name.removesuffix(".libs"): 0 for name in large}
    for name, size in large.items():
        told[name.removesuffix(".libs")] += size
    told["other packages"] = nbytes(packages) - sum(told.values())
    told["Python"] = nbytes(folder) - nbytes(packages)
    return dict(sorted(told.items(), key=lambda item: -item[1]))


def nbytes(path: Path) -> int:
    """Bytes that a file or folder takes on disk, where usual blocks of 4 KiB are filled."""
    paths = [path, *path.rglob("*")]
    return sum(-(-item.lstat().st_size // 4096) * 4096 for item in paths)
