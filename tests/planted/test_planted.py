"""Every planted bug has to make the suite fail: a test that cannot fail proves nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import local

import pytest
from bugs import BUGS, ENVIRONMENT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TESTS_FAILED = 1
"""pytest's exit code; a bug that cannot be planted any more gives another one."""
ARGUMENTS = ("-x", "-q", "--tb=line", "-p", "bugs", "-p", "no:cacheprovider", "-o", "timeout=0")
# What is imported before pytest begins belongs to others: there is nothing to rewrite.
ARGUMENTS += ("-W", "ignore::pytest.PytestAssertRewriteWarning")

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
def runs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Done]]]:
    """All runs that were asked for, two at a time, started with the first test."""
    asked = {item.name for item in request.session.items}
    names = [name for name in BUGS if f"test_the_suite_notices[{name}]" in asked]
    folder, lane, nurseries = tmp_path_factory.mktemp("planted"), local(), list[Nursery]()

    def open_lane() -> None:
        lane.nursery = Nursery()
        nurseries.append(lane.nursery)

    def run(name: str) -> Done:
        done: Done = lane.nursery.run(name, folder / name)
        return done

    with ThreadPoolExecutor(max_workers=2, initializer=open_lane) as pool:
        yield {name: pool.submit(run, name) for name in names}
        pool.shutdown(cancel_futures=True)
    for nursery in nurseries:
        nursery.close()


@pytest.mark.parametrize("name", BUGS)
def test_the_suite_notices(name: str, runs: dict[str, Future[Done]]) -> None:
    done = runs[name].result()
    assert done.code == TESTS_FAILED, done.output[-2000:]
    assert " failed" in done.output
