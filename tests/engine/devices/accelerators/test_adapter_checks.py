"""Adapters are looked for and tried in processes of their own, whatever drivers do there."""

from __future__ import annotations

import ctypes.util
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import bad_drivers
import pytest

from engine.backend.webgpu import self_check
from engine.backend.webgpu.adapters import is_installed
from engine.devices.accelerators import adapter_checks
from engine.devices.accelerators.adapter_checks import AdapterCheck, AdapterChecks, CheckResult
from engine.errors import Cancelled
from engine.machine.facts import Accelerator, Vendor
from engine.machine.sandbox import Sandbox
from engine.machine.sandbox_process import SandboxLimits

pytestmark = pytest.mark.skipif(not is_installed(), reason="wgpu is not installed")

CARDS = [Accelerator("", "Radeon RX 6600", Vendor.AMD, identity="0000:03:00.0", driver="amdgpu")]
SHORT = SandboxLimits(seconds=2.0, nbytes=None, patience=1)
PATIENT = replace(adapter_checks._COMPUTING, patience=15)


def never() -> bool:
    return False


@pytest.fixture
def tried(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[[Callable[..., Any], Callable[..., Any]], AdapterCheck]:
    """A check whose process does this instead of looking and computing."""

    def make(look: Callable[..., Any], compute: Callable[..., Any]) -> AdapterCheck:
        monkeypatch.setattr(self_check, "adapter_facts", look)
        monkeypatch.setattr(self_check, "wrong_numbers", compute)
        made = AdapterChecks(tmp_path).make(CARDS, never)
        assert AdapterChecks(tmp_path).find(CARDS) == made, "it was not kept"
        return made

    return make


@pytest.mark.parametrize(
    ("look", "verdict"),
    [
        (bad_drivers.crashes, CheckResult.CRASHED),
        (bad_drivers.hangs, CheckResult.HUNG),
        (bad_drivers.spins, CheckResult.HUNG),
        (bad_drivers.tells_garbage, CheckResult.FAILED),
        (bad_drivers.raises, CheckResult.FAILED),
    ],
)
def test_a_driver_that_fails_when_adapters_are_looked_for(
    look: Any, verdict: CheckResult, tried: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    if verdict is CheckResult.HUNG:
        monkeypatch.setattr(adapter_checks, "_LOOKING", SHORT)
    check = tried(look, bad_drivers.computes_well)
    assert (check.verdict, check.adapters) == (verdict, ())


@pytest.mark.parametrize(
    ("compute", "verdict", "details"),
    [
        (bad_drivers.computes_well, CheckResult.PASSED, ""),
        (bad_drivers.computes_badly, CheckResult.WRONG, "Q4_K: 3.1e-01"),
        (bad_drivers.raises, CheckResult.FAILED, "RuntimeError: no such limit"),
    ],
)
def test_every_card_is_tried(compute: Any, verdict: CheckResult, details: str, tried: Any) -> None:
    check = tried(bad_drivers.two_cards, compute)
    assert check.verdict is CheckResult.PASSED, "what a driver prints is no answer"
    assert [each.name for each in check.adapters] == ["Radeon RX 6600", "Arc A580"]
    assert {(each.verdict, each.details) for each in check.adapters} == {(verdict, details)}


def test_a_card_that_crashes_does_not_take_the_others_along(tried: Any) -> None:
    first, second = tried(bad_drivers.two_cards, bad_drivers.first_crashes).adapters
    assert (first.verdict, second.verdict) == (CheckResult.CRASHED, CheckResult.PASSED)


BAD_DRIVER = """
#include <stdlib.h>
#include <unistd.h>
int vk_icdNegotiateLoaderICDInterfaceVersion(unsigned *version) { %s; return 0; }
void *vk_icdGetInstanceProcAddr(void *instance, const char *name) { return NULL; }
"""


@pytest.mark.skipif(not ctypes.util.find_library("vulkan"), reason="no loader of Vulkan's")
@pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")
@pytest.mark.release(keep=1, reason="waits for a driver that hangs")
@pytest.mark.parametrize(
    ("does", "verdict"), [("abort()", CheckResult.CRASHED), ("for (;;) pause()", CheckResult.HUNG)]
)
def test_a_bad_driver_that_vulkan_really_loads(
    does: str, verdict: CheckResult, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, library, manifest = (tmp_path / name for name in ("bad.c", "bad.so", "bad_icd.json"))
    source.write_text(BAD_DRIVER % does)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=300)
    driver = {"library_path": str(library), "api_version": "1.3.0"}
    manifest.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": driver}))
    monkeypatch.setenv("VK_DRIVER_FILES", str(manifest))
    monkeypatch.setenv("VK_ICD_FILENAMES", str(manifest))
    if verdict is CheckResult.HUNG:
        monkeypatch.setattr(adapter_checks, "_LOOKING", SandboxLimits(10.0, None, patience=1))
    assert AdapterChecks(tmp_path).make(CARDS, never).verdict is verdict


def test_it_is_called_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(self_check, "adapter_facts", bad_drivers.hangs)
    asked = iter([False, False, False, True])
    with pytest.raises(Cancelled):
        AdapterChecks(tmp_path).make(CARDS, lambda: next(asked))
    assert AdapterChecks(tmp_path).find(CARDS) is None


def test_it_is_made_anew_when_a_driver_changes(
    tried: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    manifests = tmp_path / "icd.d"
    manifests.mkdir()
    (manifests / "radeon_icd.json").write_text("{}")
    monkeypatch.setattr(adapter_checks, "_MANIFESTS", (str(manifests), str(tmp_path / "none")))
    tried(bad_drivers.two_cards, bad_drivers.computes_well)
    checks = AdapterChecks(tmp_path)
    assert checks.find([replace(CARDS[0], driver="amdgpu-pro")]) is None
    assert checks.find([*CARDS, *CARDS]) is None
    with monkeypatch.context() as other:
        other.setenv("VK_DRIVER_FILES", "/elsewhere.json")
        assert checks.find(CARDS) is None
    assert checks.find(CARDS) is not None
    (manifests / "radeon_icd.json").write_text('{"of": "another version"}')
    assert checks.find(CARDS) is None


def test_the_window_never_imports_wgpu_for_it() -> None:
    code = (
        "import sys\n"
        "from engine.devices.accelerators.adapter_checks import AdapterChecks\n"
        "from engine.loading.devices import DeviceManager\n"
        "import engine.backend.webgpu.self_check\n"
        "AdapterChecks().find(())\n"
        "DeviceManager().look()\n"
        "raise SystemExit('wgpu' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=300).returncode == 0


def test_memory_of_this_machines_adapters() -> None:
    """Vulkan tells it of the very adapters that WebGPU lists."""
    sandbox = Sandbox()
    try:
        found = sandbox.ask(self_check.adapter_facts, limits=PATIENT)
    finally:
        sandbox.close()
    if not found:
        pytest.skip("no WebGPU adapter here (Debian: mesa-vulkan-drivers)")
    assert isinstance(found, list)
    for adapter in found:
        assert adapter["memory"] > 2**20 or not adapter["driver"].startswith("Vulkan")


@pytest.mark.release(reason="compiles shaders for five types of weights")
def test_this_machines_adapters() -> None:
    """Software or not: in its own process each computes what the CPU computes."""
    sandbox = Sandbox()
    try:
        found = sandbox.ask(self_check.adapter_facts, limits=PATIENT)
        assert isinstance(found, list)
        if not found:
            pytest.skip("no WebGPU adapter here (Debian: mesa-vulkan-drivers)")
        said = sandbox.ask(self_check.wrong_numbers, 0, limits=PATIENT)
    finally:
        sandbox.close()
    assert said == ""
