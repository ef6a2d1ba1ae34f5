"""Build the wheels of a release into `dist/`: Linux x86-64, Linux aarch64 and Windows x86-64.

    .venv/bin/python packaging/wheels.py [linux-x86_64] [linux-aarch64] [windows-x86_64]

One wheel per platform serves Python 3.11 and newer. Needs, on Linux, GCC for x86-64
(Debian: gcc), for aarch64 (gcc-aarch64-linux-gnu) and MinGW (gcc-mingw-w64-x86-64); a compiler that
is not here is told. Symbols of the Linux wheels are checked where auditwheel is installed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import native_library

ROOT = native_library.ROOT
DIST = ROOT / "dist"
_OLD_GLIBC = ("-fPIC", "-include", str(ROOT / "packaging" / "manylinux2014.h"))
# Old systems have their threads in a library of their own, which Linux's linkers leave out today.
_THREADS = ("-Wl,--no-as-needed", "-l:libpthread.so.0", "-Wl,--as-needed", "-lm")


@dataclass(frozen=True)
class Target:
    """A platform and how to compile for it.

    Attributes:
        tag: the platform's name in the wheel's.
        compilers: names of its compiler; the first one that is here builds.
        file: name of the library.
        compile: what the compiler is told besides pyproject.toml's options.
        link: what the linker is told.
    """

    tag: str
    compilers: tuple[str, ...]
    file: str
    compile: tuple[str, ...]
    link: tuple[str, ...]


def _linux(machine: str) -> Target:
    """A Linux; on one of its own kind, GCC has its short name as well."""
    compilers = (f"{machine}-linux-gnu-gcc", *(["gcc"] if platform.machine() == machine else []))
    return Target(f"manylinux2014_{machine}", compilers, "_native.abi3.so", _OLD_GLIBC, _THREADS)


TARGETS = {
    "linux-x86_64": _linux("x86_64"),
    "linux-aarch64": _linux("aarch64"),
    "windows-x86_64": Target(
        "win_amd64",
        ("x86_64-w64-mingw32-gcc",),
        "_native.pyd",
        *native_library.FOR_WINDOWS,
    ),
}


class Problem(Exception):
    """Why a wheel could not be built."""


def build_library(target: Target, compiler: str, folder: Path, kept: Path | None = None) -> Path:
    """Compile and link the native library of a target; return its file.

    Args:
        target: what for.
        compiler: the program.
        folder: where the library goes.
        kept: where objects stay; None: in the user's cache folder.

    Raises:
        Problem: the compiler failed; it holds what it said.
    """
    library = folder / target.file
    told = native_library.Compiler((compiler,), target.compile, ("-s", *target.link))
    try:
        native_library.build(library, told, kept=kept)
    except native_library.BuildFailed as failure:
        raise Problem(str(failure)) from failure
    return library


def build_wheel(target: Target, library: Path, folder: Path) -> Path:
    """Pack a wheel around a finished library; return its file in `dist/`."""
    command = [sys.executable, "-c", "import setuptools; setuptools.setup()", "-q"]
    command += ["build", "--build-base", str(folder / "build"), "bdist_wheel"]
    command += ["--plat-name", target.tag, "--dist-dir", str(folder / "wheel")]
    _run(command, DUOTAIL_LIBRARY=str(library))
    (wheel,) = (folder / "wheel").iterdir()
    DIST.mkdir(exist_ok=True)
    return Path(shutil.move(wheel, DIST / wheel.name))


def check_symbols(wheel: Path) -> str:
    """Return what auditwheel says of a wheel for Linux.

    Raises:
        Problem: it asks for a newer system than its name says.
    """
    if importlib.util.find_spec("auditwheel") is None:
        return "symbols not checked: auditwheel is not installed"
    told = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    words = " ".join(told.stdout.split())
    if (
        told.returncode
        or f'platform tag: "manylinux_2_17_{wheel.stem.split("2014_")[1]}"' not in words
    ):
        raise Problem(f"auditwheel refuses {wheel.name}:\n{told.stdout}")
    return "auditwheel: glibc 2.17 is enough"


def _run(command: list[str], **environment: str) -> None:
    told = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if told.returncode:
        raise Problem(f"this command failed: {' '.join(command)}\n{told.stdout}")


def find_compiler(target: Target) -> str:
    """Return the target's compiler.

    Raises:
        Problem: there is none.
    """
    for name in filter(shutil.which, target.compilers):
        return name
    raise Problem("there is no " + " or ".join(target.compilers))


def main() -> int:
    """Build what is asked for; 0 when all of it is there."""
    parser = argparse.ArgumentParser(description="Build the wheels of a release into dist/")
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    failed = 0
    for name in parser.parse_args().targets or TARGETS:
        target = TARGETS[name]
        try:
            with tempfile.TemporaryDirectory(prefix="duotail-wheel-") as folder:
                library = build_library(target, find_compiler(target), Path(folder))
                wheel = build_wheel(target, library, Path(folder))
            words = [wheel.name, f"{wheel.stat().st_size / 1e6:.0f} MB"]
            if name.startswith("linux"):
                words.append(check_symbols(wheel))
            sys.stdout.write(", ".join(words) + "\n")
        except Problem as problem:
            sys.stderr.write(f"{name}: {problem}\n")
            failed = 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
