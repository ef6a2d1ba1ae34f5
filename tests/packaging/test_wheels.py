"""Other compilers and other systems give the bits of this one's library."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import wheels

from engine.backend.native.library import FILE, library

ROOT = Path(__file__).parents[2]
DRIVER = ROOT / "tests" / "packaging" / "native_bits.c"
CLANG = replace(wheels.TARGETS["linux-x86_64"], compilers=("clang", "clang-14"))
OF_OTHERS = {
    "clang": (CLANG, ()),
    "linux-x86_64": (wheels.TARGETS["linux-x86_64"], ()),
    "linux-aarch64": (
        wheels.TARGETS["linux-aarch64"],
        ("qemu-aarch64-static", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"),
    ),
    "windows-x86_64": (wheels.TARGETS["windows-x86_64"], ("wine",)),
}


def link(compiler: str, native: Path, out: Path) -> Path:
    """The driver, linked with a library."""
    include = ["-I", str(ROOT / "engine" / "native")]
    command = [compiler, "-std=c11", "-O1", *include, str(DRIVER), str(native), "-o", str(out)]
    subprocess.run(command, check=True, timeout=300)
    return out


def bits(command: list[str], folder: Path) -> dict[int, str]:
    """What the driver prints, by instruction set."""
    quiet = {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    told = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **quiet},
        stdout=subprocess.PIPE,
        text=True,
        timeout=600,
    )
    lines = [line.partition(" ") for line in told.stdout.splitlines()]
    return {int(isa): rest for isa, _, rest in lines}


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The bits of the installed library, one and the same for every instruction set."""
    if shutil.which("gcc") is None:
        pytest.skip("needs gcc")
    folder = tmp_path_factory.mktemp("ours")
    found = bits([str(link("gcc", FILE, folder / "bits"))], folder)
    assert max(found) == library().dt_best_isa()
    assert len(set(found.values())) == 1
    return found[0]


@pytest.mark.release(reason="compiles the library each time")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", OF_OTHERS)
def test_the_same_bits(name: str, ours: str, tmp_path: Path) -> None:
    target, runner = OF_OTHERS[name]
    try:
        compiler = wheels.find_compiler(target)
    except wheels.Problem as problem:
        pytest.skip(str(problem))
    if runner and shutil.which(runner[0]) is None:
        pytest.skip(f"needs {runner[0]}")
    native = wheels.build_library(target, compiler, tmp_path)
    found = bits([*runner, str(link(compiler, native, tmp_path / "bits.exe"))], tmp_path)
    assert set(found.values()) == {ours}, found
    if not runner:
        assert max(found) == library().dt_best_isa()
