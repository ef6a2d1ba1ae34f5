"""The tests that need an accelerator, and WebGPU's, with the card in the place of stand-ins."""

from __future__ import annotations

import sys
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from card.steps import ROOT, Check

if TYPE_CHECKING:
    import pytest

FOLDERS = {
    "torch": ("tests/gpu", "tests/engine/devices/test_calibration_for_real.py"),
    "webgpu": ("tests/engine/backend/webgpu",),
}
_OPTIONS = (
    *("-q", "--tb=short", "-p", "no:cacheprovider", "--disable-warnings", "--timeout=120"),
    # Another machine's packages may warn of what ours do not, and lack plugins of other tests.
    *("-o", "filterwarnings=", "-W", "ignore"),
    *("-o", "addopts=--strict-markers"),
)


class Told:
    """Writes every test's outcome down as it comes."""

    def __init__(self, check: Check) -> None:
        self._check = check
        self.counts: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note a test's outcome, or that of what comes before and after it."""
        if report.when != "call" and report.passed:
            return
        self.counts[report.outcome] += 1
        told: dict[str, Any] = {"outcome": report.outcome, "seconds": round(report.duration, 3)}
        if report.failed:
            told["why"] = str(report.longrepr)[-4000:]
        elif report.skipped and isinstance(report.longrepr, tuple):
            told["why"] = str(report.longrepr[-1])
        if properties := dict(report.user_properties):
            told["found"] = properties
        self._check.emit("test", test=report.nodeid, **told)
        self._check.say(", ".join(f"{count} {name}" for name, count in self.counts.items()))


def run(check: Check, suite: str) -> int:
    """Run the tests; 0 where none failed."""
    import pytest

    sys.argv[0] = "pytest"
    told = Told(check)
    options = [*_OPTIONS, f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml")]
    if suite == "torch":
        options += ["-m", "gpu", "--release", *(["-k", "probe"] if check.rehearse else [])]
    elif check.rehearse:
        options += ["-k", "budgets"]
    if suite == "webgpu" and not check.rehearse and find_spec("xdist"):
        options += ["-n", "4"]  # most of their time is the CPU's, which computes the same
    code = pytest.main([*options, *(str(ROOT / each) for each in FOLDERS[suite])], [told])
    return 0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code)
