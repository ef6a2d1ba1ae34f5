"""Every planted bug has to make the suite fail: a test that cannot fail proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from bugs import BUGS, ENVIRONMENT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS_FAILED = 1
"""pytest's exit code; a bug that cannot be planted any more gives another one."""
ARGUMENTS = ["--release", "-x", "-q", "--tb=line", "-p", "bugs"]
ARGUMENTS += ["-p", "no:cacheprovider", "-o", "timeout=0"]
# What is imported before pytest begins belongs to others: there is nothing to rewrite.
ARGUMENTS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]

QUICK = {
    "node_without_its_parent",
    "stop_string_across_rounds_missed",
    "cut_off_files_taken_for_whole",
}
"""Bugs of the first tier: one in decoding, one in its text, one in a model's files."""

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="runs are branched off")


@dataclass(frozen=True)
class Done:
    """A run of the tests that have to notice a bug."""

    code: int
    output: str


class Nursery:
    """Runs tests with bugs, one after the other, without importing torch each time."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "nursery.py")], cwd=ROOT, text=True,
            env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, name: str, output: Path) -> Done:
        wanted = {ENVIRONMENT: name}, str(output), [*ARGUMENTS, *BUGS[name].noticed_by]
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return Done(code, output.read_text(errors="replace"))

    def close(self) -> None:
        self._process.communicate()


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    nursery = Nursery()
    yield nursery
    nursery.close()


_LATER = pytest.mark.release(reason="a run of pytest for each bug")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else _LATER) for name in BUGS]
)
def test_the_suite_notices(name: str, nursery: Nursery, tmp_path: Path) -> None:
    done = nursery.run(name, tmp_path / "output")
    assert done.code == TESTS_FAILED, done.output[-2000:]
    assert " failed" in done.output
