"""What CI does about a test that fails: asks it again, alone, and believes what holds twice."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).parents[2] / ".ci" / "run"
NEEDED = [shutil.which(tool) for tool in ("bash", "make", "tee", "grep")]
pytestmark = pytest.mark.skipif(None in NEEDED, reason="needs bash, make, tee and grep")

TEST = """
import os, pathlib, pytest

def test_steady():
    pass

@pytest.mark.parametrize("name", ["a b [c]"] * int(os.environ["TESTS"]))
def test_unsteady(name):
    runs = pathlib.Path("runs")
    with runs.open("a") as file:
        file.write(".")
    assert len(runs.read_text()) > int(os.environ["FAILURES"])
"""


def ran(folder: Path, failures: int, tests: int = 1) -> tuple[int, str]:
    """Exit status and closing line where the first so many runs of a test fail."""
    (folder / ".ci").mkdir()
    shutil.copy(RUN, folder / ".ci" / "run")
    (folder / "test_it.py").write_text(TEST)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -ra\n")
    (folder / "Makefile").write_text(
        f"test:\n\t@{sys.executable} -m pytest test_it.py $(ARGS)\nlint:\n\t@true\n"
    )
    done = subprocess.run(
        ["bash", ".ci/run"],
        cwd=folder,
        env=os.environ | {"FAILURES": str(failures), "TESTS": str(tests)},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_what_passes_is_run_once(tmp_path: Path) -> None:
    status, told = ran(tmp_path, 0)
    assert status == 0
    assert "asked again" not in told
    assert "2 passed" in told.splitlines()[-1]
    assert (tmp_path / "runs").read_text() == "."


def test_what_fails_once_has_to_pass_twice_and_is_named(tmp_path: Path) -> None:
    status, told = ran(tmp_path, 1)
    assert status == 0
    assert "asked again:\nFAILED test_it.py::test_unsteady[a b [c]]" in told
    assert "1 failed, 1 passed" in told.splitlines()[-1]
    assert (tmp_path / "runs").read_text() == "..."


@pytest.mark.parametrize("failures", [2, 99])
def test_what_fails_again_has_failed(tmp_path: Path, failures: int) -> None:
    status, _told = ran(tmp_path, failures)
    assert status == 1
    assert (tmp_path / "runs").read_text() == ".."


def test_many_failures_stand_as_they_are(tmp_path: Path) -> None:
    status, told = ran(tmp_path, 4, tests=4)
    assert status == 1
    assert "asked again" not in told
    assert (tmp_path / "runs").read_text() == "...."
