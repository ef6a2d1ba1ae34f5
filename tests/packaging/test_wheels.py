"""Other compilers, processors and systems give the bits of this one's library."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
import wheels

from engine.backend.native.library import FILE, Isa, instruction_sets, library

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("instruction_sets.c")
ENCODED = Path(__file__).with_name("vnni_as_evex.sh")
LINUX = wheels.TARGETS["linux-x86_64"]
TARGETS = {
    **wheels.TARGETS,
    "clang": replace(LINUX, compilers=("clang", "clang-14")),
    "AVX-VNNI for AVX-512": replace(LINUX, compilers=(str(ENCODED),)),
}
WINE = ("wine",)
QEMU = ("qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu", "-cpu")
ARMS = {
    "cortex-a53": ("portable", "neon"),
    "cortex-a76": ("portable", "neon", "dotprod"),
    "max": ("portable", "neon", "dotprod", "i8mm"),
}
"""The emulator's processors, and what the library has to find there, the best last."""

pytestmark = [
    pytest.mark.release(reason="compiles the library each time"),
    pytest.mark.timeout(1800),
]
Hashes = dict[str, dict[str, str]]
"""By instruction set and part."""
Build = Callable[[str], Path]


def link(compiler: str, native: Path, out: Path) -> Path:
    """The program, linked with a library."""
    include = ["-I", str(ROOT / "engine" / "native")]
    command = [compiler, "-std=c11", "-O1", *include, str(PROGRAM), str(native), "-o", str(out)]
    subprocess.run(command, check=True, timeout=300)
    return out


def run(*command: str | Path) -> Hashes:
    """What the program prints; the last instruction set is the best there is."""
    folder = Path(command[-1]).parent
    quiet = {"WINEPREFIX": str(folder / "wine"), "WINEDEBUG": "-all"}
    told = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **quiet},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        timeout=1200,
    )
    hashes = defaultdict[str, dict[str, str]](dict)
    best, *lines = told.stdout.splitlines()
    for line in lines:
        isa, part, value = line.split()
        hashes[isa][part] = value
    assert best == f"best {[*hashes][-1]}"
    return hashes


def need(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"needs {program}")


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """The program with the library of a target, compiled once."""

    @cache
    def built(name: str) -> Path:
        try:
            compiler = wheels.find_compiler(TARGETS[name])
        except wheels.Problem as problem:
            pytest.skip(str(problem))
        folder = tmp_path_factory.mktemp("target")
        strict = replace(TARGETS[name], compile=(*TARGETS[name].compile, "-Werror"))
        native = wheels.build_library(strict, compiler, folder, kept=folder)
        return link(compiler, native, folder / "program.exe")

    return built


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The hashes of the installed library, the same for every instruction set."""
    need("gcc")
    found = run(link("gcc", FILE, tmp_path_factory.mktemp("ours") / "program"))
    assert list(found) == names(*instruction_sets())
    for isa, hashes in found.items():
        assert hashes == found["portable"], isa
    return found["portable"]


def names(*isas: Isa) -> list[str]:
    return [isa.name.lower() for isa in isas]


@pytest.mark.parametrize(
    ("name", "runner"), [("clang", ()), ("linux-x86_64", ()), ("windows-x86_64", WINE)]
)
def test_other_compilers_and_systems(
    name: str, runner: tuple[str, ...], ours: dict[str, str], build: Build
) -> None:
    for program in runner:
        need(program)
    found = run(*runner, build(name))
    for isa, hashes in found.items():
        assert hashes == ours, isa
    assert [*found][-1] == names(Isa(library().dt_best_isa()))[0] or runner


@pytest.mark.parametrize("processor", ARMS)
def test_an_emulated_arm(processor: str, ours: dict[str, str], build: Build) -> None:
    need(QEMU[0])
    found = run(*QEMU, processor, build("linux-aarch64"))
    assert tuple(found) == ARMS[processor]
    for isa, hashes in found.items():
        assert hashes == ours, isa


@pytest.mark.skipif(Isa.AVX512 not in instruction_sets(), reason="needs AVX-512 VNNI")
def test_avx_vnni_encoded_as_avx_512(ours: dict[str, str], build: Build) -> None:
    """Its kernels, on a processor that has the same instructions by another name."""
    need("gcc")
    program = build("AVX-VNNI for AVX-512")
    assert run(program)["avx_vnni"] == ours
    (output,) = program.parent.glob("isa_avx_vnni-*.o.s")
    shipped = output.read_text()
    assert "vpdpbusd" in shipped
    assert not re.search(r"\n\s*vpdp", shipped), "not all of them are AVX-VNNI's"
    assert not re.search(r"zmm|[xy]mm(1[6-9]|[23]\d)|%k[0-7]", shipped), "registers of AVX-512's"
