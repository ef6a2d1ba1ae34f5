"""What `pip install .` installs: the three packages with their data, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import native_library
import pytest

from engine.model import bundled

pytestmark = pytest.mark.release(reason="builds a wheel")

ROOT = Path(__file__).parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.py[co]", ".*", "*.po", "window-*.png")
FETCHED = f"resources/models/{bundled.STARTER_FOLDER}/{bundled.STARTER.name}"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project as a fresh clone has it, tests and all."""
    copy = tmp_path_factory.mktemp("project") / "duotail"
    copy.mkdir()
    for name in ("app", "engine", "packaging", "resources", "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=LEFT_OUT)
    (copy / FETCHED).unlink(missing_ok=True)
    (copy / FETCHED).write_bytes(b"GGUF")  # as in a folder that was set up
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, copy)
    return copy


@pytest.fixture(scope="module")
def hasty_compiler(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a build that does not optimise: what is in the wheel stays the same."""
    compiler = os.environ.get("CC", "cc")
    if sys.platform == "win32" or shutil.which(compiler.split()[0]) is None:
        return {}
    script = tmp_path_factory.mktemp("compiler") / "cc"
    script.write_text(f'#!/bin/sh\nexec {compiler} "$@" -O0\n')
    script.chmod(0o755)
    return {"CC": str(script)}


@pytest.fixture(scope="module")
def wheel(
    source: Path, hasty_compiler: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> zipfile.ZipFile:
    """The wheel, built with the environment's own setuptools, without a network."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q"]
    built = subprocess.run(
        [*command, "-w", str(out), str(source)],
        capture_output=True,
        text=True,
        timeout=800,
        env={**os.environ, **hasty_compiler},
    )
    assert built.returncode == 0, built.stderr
    (file,) = out.glob("*.whl")
    return zipfile.ZipFile(file)


def test_the_wheel_holds_every_file_of_the_packages(source: Path, wheel: zipfile.ZipFile) -> None:
    wanted = {
        path.relative_to(source).as_posix()
        for package in ("app", "engine", "resources")
        for path in (source / package).rglob("*")
        if path.is_file()
        and path.suffix not in (".c", ".h")  # those are built
        and not path.name.startswith("_native")
    }
    assert wanted - set(wheel.namelist()) == {FETCHED}
    assert f"resources/models/{bundled.STARTER_FOLDER}/duotail.json" in wanted


def test_what_is_written_in_c_is_built(
    wheel: zipfile.ZipFile, hasty_compiler: dict[str, str]
) -> None:
    if not hasty_compiler:
        pytest.skip("needs a C compiler")
    library = wheel.read(f"engine/{native_library.LIBRARY}")
    assert f"duotail sources {native_library.sources_digest(ROOT)}".encode() in library


def test_the_wheel_holds_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"app", "engine", "resources"}


def test_the_wheel_carries_licences_and_the_command(wheel: zipfile.ZipFile) -> None:
    names = {name.partition(".dist-info/")[2]: name for name in wheel.namelist()}
    assert "licenses/LICENSE" in names
    assert "licenses/NOTICE" in names
    assert b"duotail = app.launch:main" in wheel.read(names["entry_points.txt"])
