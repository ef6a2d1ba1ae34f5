"""Run the tests of the native library with the compiler's sanitizers.

    .venv/bin/python packaging/sanitize.py

A copy of the checkout is built with address and undefined-behaviour sanitizers, and its kernel
tests run for every instruction set of this processor; another one with the thread sanitizer runs
the tests of the pool. The first report ends the run. Needs gcc and its sanitizer libraries.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import native_library

from engine.backend.native.library import Isa, instruction_sets

ROOT = Path(__file__).resolve().parent.parent
_BACKEND = "tests/engine/backend/"
# A sanitizer's own memory and threads would be counted as ours, and not every one survives a fork.
_CHOSEN = ("-k", "not nothing_behind and not takes_no and not fork")
_ON_ALL_CORES = ("-n", "auto", "--dist", "worksteal")


@dataclass(frozen=True)
class Sanitizer:
    """A way to build and the tests to run.

    Attributes:
        flags: what the compiler is told.
        libraries: gcc's names of what Python has to load before anything else.
        options: environment variables of those libraries.
        tests: files, options of pytest.
    """

    name: str
    flags: str
    libraries: tuple[str, ...]
    options: dict[str, str]
    tests: tuple[str, ...]


MEMORY = Sanitizer(
    "address and undefined behaviour",
    "-fsanitize=address,undefined -fno-sanitize-recover=all",
    ("libasan.so", "libubsan.so"),
    # Python and the libraries beside ours keep what they have until the process ends.
    {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"},
    (*_CHOSEN, *_ON_ALL_CORES, *(f"{_BACKEND}test_native_{part}.py" for part in (
        "cancel", "families", "formats", "heads", "one_arithmetic", "packing", "pool", "products",
        "sampling",
    )), f"{_BACKEND}test_delta.py"),
)  # fmt: skip
THREADS = Sanitizer(
    "threads",
    "-fsanitize=thread",
    ("libtsan.so",),
    {"TSAN_OPTIONS": "halt_on_error=1"},
    (*_CHOSEN, f"{_BACKEND}test_native_pool.py"),
)


def main() -> int:
    """Run all of it; 0 when nothing was found."""
    failed = 0
    for sanitizer in (MEMORY, THREADS):
        with tempfile.TemporaryDirectory(prefix="duotail-sanitize-") as name:
            copy = Path(name)
            build(copy, sanitizer)
            # The pool is one for all, and the widest kernels have the fewest accesses to watch.
            for isa in instruction_sets() if sanitizer is MEMORY else instruction_sets()[-1:]:
                sys.stdout.write(f"== {sanitizer.name}, {isa.name.lower()}\n")
                sys.stdout.flush()
                failed |= run(copy, sanitizer, isa)
    return failed


def build(copy: Path, sanitizer: Sanitizer) -> None:
    """Copy what git knows of the checkout, and build the library there."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "engine", "tests", "resources",
         "packaging", "app", "pyproject.toml", "README.md", "LICENSE", "NOTICE"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    for file in listed.stdout.splitlines():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, copy / file)
    # Kernels that are optimised as well take the compiler very long to instrument.
    flags = (*sanitizer.flags.split(), "-fno-omit-frame-pointer", "-g", "-O0")
    compile_options, link_options = native_library.FOR_POSIX
    compiler = native_library.Compiler(
        ("gcc",), (*compile_options, *flags), (*link_options, *flags)
    )
    native_library.build(copy / "engine" / native_library.LIBRARY, compiler, kept=copy)


def run(copy: Path, sanitizer: Sanitizer, isa: Isa) -> int:
    """Run the tests of a copy for one instruction set; pytest's exit code."""
    environment = {
        **os.environ,
        **sanitizer.options,
        "LD_PRELOAD": " ".join(map(_found, sanitizer.libraries)),
        "DUOTAIL_ISA": isa.name.lower(),
        "PYTHONPATH": str(copy),
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    if sanitizer is THREADS and shutil.which("setarch"):
        # Its shadow memory has fixed places, which a randomised layout may hold.
        command = ["setarch", platform.machine(), "-R", *command]
    return subprocess.run([*command, *sanitizer.tests], cwd=copy, env=environment).returncode


def _found(name: str) -> str:
    """Path of one of gcc's libraries."""
    told = subprocess.run(
        ["gcc", f"-print-file-name={name}"], stdout=subprocess.PIPE, text=True, check=True
    )
    return told.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
