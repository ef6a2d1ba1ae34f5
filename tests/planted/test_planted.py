"""Every planted bug has to make the suite fail: a test that cannot fail proves nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from bugs import BUGS, ENVIRONMENT

ROOT = Path(__file__).parents[2]
TESTS_FAILED = 1
"""pytest's exit code; a bug that cannot be planted any more gives another one."""


def run_with(name: str) -> subprocess.CompletedProcess[str]:
    """The tests that have to notice the bug, in a process that has it."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--tb=line", "-p", "bugs"]
    command += ["-p", "no:cacheprovider", *BUGS[name].noticed_by]
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, ENVIRONMENT: name, "PYTHONPATH": path}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280
    )


@pytest.fixture(scope="module")
def runs(
    request: pytest.FixtureRequest,
) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """All runs that were asked for, two at a time, started with the first test."""
    asked = {item.name for item in request.session.items}
    names = [name for name in BUGS if f"test_the_suite_notices[{name}]" in asked]
    with ThreadPoolExecutor(max_workers=2) as pool:
        yield {name: pool.submit(run_with, name) for name in names}


@pytest.mark.parametrize("name", BUGS)
def test_the_suite_notices(
    name: str, runs: dict[str, Future[subprocess.CompletedProcess[str]]]
) -> None:
    done = runs[name].result()
    assert done.returncode == TESTS_FAILED, done.stdout[-2000:] + done.stderr[-2000:]
    assert " failed" in done.stdout
