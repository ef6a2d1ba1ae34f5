"""ARM's instruction sets give the bits of this processor's, as an emulator runs them."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine.backend.native.library import Isa, instruction_sets, library

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("instruction_sets.c")
CROSS, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
PROCESSORS = {
    "cortex-a53": ("portable", "neon"),
    "cortex-a76": ("portable", "neon", "dotprod"),
    "max": ("portable", "neon", "dotprod", "i8mm"),
}
"""The emulator's processors, and what the library has to find there, the best last."""

release = pytest.mark.release(reason="compiles the native library twice and runs it in an emulator")
Hashes = dict[str, dict[str, str]]
"""By instruction set and part."""


@pytest.mark.usefixtures("isa_as_before")
def test_sets_of_other_processors_are_refused() -> None:
    assert instruction_sets()[0] is Isa.PORTABLE
    assert instruction_sets()[-1] == library().dt_best_isa()
    for isa in Isa:
        accepted = library().dt_use_isa(isa) == 0
        assert accepted == (isa in instruction_sets()), isa.name
    assert library().dt_use_isa(-1) != 0
    assert library().dt_use_isa(len(Isa)) != 0


def compiled(compiler: str, folder: Path, *options: str) -> Path:
    """The program, built with the native library as the project's file says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    module: dict[str, Any] = project["ext-modules"][0]
    macros = [f"-D{name}={value}" for name, value in module["define-macros"]]
    flags = [
        *macros,
        *module["extra-compile-args"],
        "-Werror",
        "-I",
        ROOT / "engine/native",
        *options,
    ]

    def compile_one(source: Path) -> Path:
        target = folder / f"{source.stem}.o"
        subprocess.run([compiler, *flags, *options, "-c", source, "-o", target], check=True)
        return target

    sources = sorted(
        map(ROOT.joinpath, module["sources"]), key=lambda source: "isa_" not in source.name
    )
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        objects = list(threads.map(compile_one, [*sources, PROGRAM]))
    program = folder / "instruction_sets"
    subprocess.run(
        [compiler, "-static", *objects, "-o", program, *module["extra-link-args"]], check=True
    )
    return program


def told(*command: str | Path) -> tuple[str, Hashes]:
    """The best instruction set, and the hashes."""
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    best, *lines = done.stdout.splitlines()
    hashes = defaultdict[str, dict[str, str]](dict)
    for line in lines:
        isa, part, value = line.split()
        hashes[isa][part] = value
    return best.removeprefix("best "), hashes


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The hashes of this processor's best instruction set."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    program = compiled(compiler, tmp_path_factory.mktemp("here"), "-O1")
    best, hashes = told(program)
    return hashes[best]


@pytest.fixture(scope="module")
def for_arm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for tool, package in ((CROSS, "gcc-aarch64-linux-gnu"), (EMULATOR, "qemu-user-static")):
        if shutil.which(tool) is None:
            pytest.skip(f"there is no {tool} (Debian: {package})")
    return compiled(CROSS, tmp_path_factory.mktemp("arm"))


@release
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_an_emulated_processor(processor: str, for_arm: Path, expected: dict[str, str]) -> None:
    best, hashes = told(EMULATOR, "-cpu", processor, for_arm)
    assert tuple(hashes) == PROCESSORS[processor]
    assert best == PROCESSORS[processor][-1]
    for isa, found in hashes.items():
        assert found == expected, isa
