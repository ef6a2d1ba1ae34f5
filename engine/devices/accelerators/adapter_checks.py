"""What WebGPU finds and computes here, told by a process of its own, and kept by driver.

A driver that crashes or hangs takes that process along and nothing else; its card is then not used.
What was found stays on disk until a driver, a card or wgpu changes.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache, partial
from hashlib import blake2b
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from engine.devices.kept_measurements import adapters_folder
from engine.errors import Cancelled
from engine.kept_files import KeptFiles
from engine.machine.facts import Accelerator
from engine.machine.sandbox_process import Limit, SandboxLimits
from engine.typed_json import decoded

if TYPE_CHECKING:
    from engine.machine.sandbox import Sandbox

_VERSION = 3
"""Version of the shaders and of the check: what another one found is worthless."""
_MOST_KEPT = 4
_LOOKING = SandboxLimits(seconds=20, nbytes=None, patience=2)
_COMPUTING = SandboxLimits(seconds=60, nbytes=None, patience=3)
_MANIFESTS = (
    *("/usr/share/vulkan/icd.d", "/usr/local/share/vulkan/icd.d", "/etc/vulkan/icd.d"),
    "~/.local/share/vulkan/icd.d",
)
"""Folders in which Linux lists Vulkan's drivers; the files of a new version have new times."""


class CheckResult(StrEnum):
    """How trying an adapter, or looking for adapters, ended."""

    UNTRIED = "untried"
    PASSED = "passed"
    WRONG = "wrong"
    FAILED = "failed"
    CRASHED = "crashed"
    HUNG = "hung"


@dataclass(frozen=True, slots=True)
class CheckedAdapter:
    """An adapter; its place in the list is its number.

    Attributes:
        vendor_id: of the PCI bus.
        kind: WebGPU's word for its type: "DiscreteGPU", "IntegratedGPU", "CPU".
        driver: with the interface before it.
        features: those of interest for shaders.
        memory: bytes of a card's own, as Vulkan tells it; 0: it does not.
        details: of a verdict: what differs, or what went wrong.
    """

    name: str
    vendor_id: int
    kind: str
    driver: str
    features: tuple[str, ...] = ()
    verdict: CheckResult = CheckResult.UNTRIED
    details: str = ""
    memory: int = 0

    @property
    def is_software(self) -> bool:
        """Tell whether it computes on the CPU."""
        return self.kind == "CPU"


@dataclass(frozen=True, slots=True)
class AdapterCheck:
    """Every adapter, or why none was found.

    Attributes:
        identity: of cards, drivers and wgpu.
        verdict: on looking for adapters.
    """

    identity: str
    verdict: CheckResult
    details: str = ""
    adapters: tuple[CheckedAdapter, ...] = ()


class AdapterChecks:
    """The checks in one folder. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self._files = KeptFiles(
            AdapterCheck,
            folder or adapters_folder(),
            lambda check: check.identity,
            most=_MOST_KEPT,
        )
        self._made: AdapterCheck | None = None

    def find(self, cards: Iterable[Accelerator]) -> AdapterCheck | None:
        """Return what was found with these very cards and drivers; None before."""
        identity = _identity(cards)
        if self._made is not None and self._made.identity == identity:
            return self._made
        return self._files.find(identity)

    def make(self, cards: Iterable[Accelerator], cancelled: Callable[[], bool]) -> AdapterCheck:
        """Look for adapters and try those that are no software, which takes seconds; keep it.

        Raises:
            Cancelled: called off.
        """
        from engine.backend.webgpu import self_check
        from engine.machine.sandbox import Sandbox

        identity = _identity(cards)
        with closing(Sandbox()) as sandbox:
            ask = partial(_ask, sandbox, cancelled)
            told, verdict, details = ask(_LOOKING, self_check.adapter_facts)
            try:
                given = {"identity": identity, "verdict": verdict, "adapters": told or []}
                check = decoded(AdapterCheck, {**given, "details": details}, "adapters")
            except ValueError as error:
                check = AdapterCheck(identity, CheckResult.FAILED, str(error))
            tried = []
            for number, adapter in enumerate(check.adapters):
                if adapter.is_software:
                    tried.append(adapter)
                    continue
                wrong, verdict, details = ask(_COMPUTING, self_check.wrong_numbers, number)
                if wrong:
                    verdict, details = CheckResult.WRONG, str(wrong)
                tried.append(replace(adapter, verdict=verdict, details=details))
        self._made = replace(check, adapters=tuple(tried))
        self._files.keep(self._made)
        return self._made


def _ask(
    sandbox: Sandbox,
    cancelled: Callable[[], bool],
    limits: SandboxLimits,
    function: Callable[..., object],
    *args: int,
) -> tuple[object, CheckResult, str]:
    """Return what a function answers in the process, how that ended, and details."""
    from engine.machine.sandbox import LimitExceeded, QuestionFailed

    try:
        answer = sandbox.ask(function, *args, limits=limits, stopped=cancelled)
    except QuestionFailed as error:
        return None, CheckResult.FAILED, str(error)
    except LimitExceeded as error:
        if error.limit is Limit.STOPPED:
            raise Cancelled from error
        return None, CheckResult.HUNG if error.limit is Limit.TIME else CheckResult.CRASHED, ""
    return answer, CheckResult.PASSED, ""


def _identity(cards: Iterable[Accelerator]) -> str:
    """A hash of what a check depends on: cards, drivers, the system, wgpu, and our shaders."""
    variables = {name: text for name, text in os.environ.items() if name.startswith("VK_")}
    facts = (
        *(_VERSION, *_system(), sorted(variables.items())),
        [(found.name, found.bus, found.identity, found.driver) for found in cards],
        _manifests(_MANIFESTS),
    )
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


@cache
def _system() -> tuple[str, str]:
    return metadata.version("wgpu"), platform.platform()


def _manifests(folders: Sequence[str]) -> list[tuple[str, int, int]]:
    found = []
    for folder in folders:
        with suppress(OSError):
            for path in sorted(Path(folder).expanduser().glob("*.json")):
                about = path.stat()
                found.append((str(path), about.st_size, about.st_mtime_ns))
    return found
