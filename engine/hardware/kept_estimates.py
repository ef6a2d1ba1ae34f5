"""What plans said of a model's memory and what it held in truth, kept on disk for later plans.

A folder of `HASH.json`, one file for a target with its draft, with its last loads. As with all
that can be made anew, nothing that goes wrong with it (read-only, full, damaged, gone) is an error.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from statistics import median
from threading import Lock

from engine.hardware.kept_speeds import speeds_folder
from engine.hardware.typed_json import decoded, encoded
from engine.machine.correction import EXACT, Correction, factor
from engine.machine.facts import CPU, Accelerator, Machine
from engine.machine.memory import DeviceMemory

VERSION = 1
MOST_FILES, MOST_LOADS = 32, 8
MOST_BYTES = 1 << 20
_COUNTED = 5
"""Loads that decide: the one that held most for a purpose."""
ENOUGH_ANSWERS, ENOUGH_TOKENS = 8, 512
"""Working memory grows with what is asked for: only so many answers, of which one was so long, are
reason to plan with less."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeviceEstimate:
    """One device of one load.

    Attributes:
        identity: what stays the same from start to start; see `identity_of`.
        name: for people.
        predicted: as the plan had it, corrections included.
        arithmetic: the same without corrections.
        held: at most, in one conversation; sorted as plans sort it.
        touched: of all that is held, what the system has really handed out.
        system: what the system or the driver counts of it; None where nobody tells.
    """

    device: str
    identity: str
    name: str
    predicted: DeviceMemory
    arithmetic: DeviceMemory
    held: DeviceMemory
    touched: int = 0
    system: int | None = None


@dataclass(frozen=True, slots=True)
class LoadEstimate:
    """One load.

    Attributes:
        at: seconds of the Unix epoch.
        answers: written since, the longest of them with `tokens` of conversation.
    """

    at: float
    mode: str
    context: int
    devices: tuple[DeviceEstimate, ...]
    answers: int = 0
    tokens: int = 0

    @property
    def error(self) -> float:
        """How far the plan was off in its sum, as a share of what was held."""
        predicted = sum(each.predicted.total for each in self.devices)
        held = sum(each.held.total for each in self.devices)
        return (predicted - held) / held if held else 0.0


@dataclass(frozen=True, slots=True)
class ModelEstimates:
    """A target with its draft; `models` is their `engine.plan.known.key_of`, loads newest first."""

    models: str
    target: str
    draft: str
    weights: str
    loads: tuple[LoadEstimate, ...]
    version: int = VERSION

    @property
    def typical_error(self) -> float | None:
        """How far plans are off; None before the first answer."""
        errors = [abs(load.error) for load in self.loads if load.answers]
        return median(errors) if errors else None

    def correction(self, device: str, identity: str) -> Correction:
        """What later plans for a device have to be multiplied with."""
        found = [
            (load, each)
            for load in self.loads
            for each in load.devices
            if (each.device, each.identity) == (device, identity)
        ][:_COUNTED]
        if not found:
            return EXACT
        exact = [each for _, each in found]
        work = (_work_factor(load, each) for load, each in found)
        return Correction(
            self.models,
            device,
            target=max(factor(each.arithmetic.target, each.held.target) for each in exact),
            draft=max(factor(each.arithmetic.draft, each.held.draft) for each in exact),
            kv=max(factor(each.arithmetic.kv, each.held.kv) for each in exact),
            workspace=max(work),
        )


def _work_factor(load: LoadEstimate, each: DeviceEstimate) -> float:
    found = factor(each.arithmetic.workspace, each.held.workspace)
    enough = load.answers >= ENOUGH_ANSWERS and load.tokens >= ENOUGH_TOKENS
    return found if enough else max(found, 1.0)


def identity_of(machine: Machine, device: str) -> str:
    """What tells a device from another one that plans call the same."""
    if device == CPU:
        return CPU
    found = next((each for each in machine.accelerators if each.device == device), None)
    return "" if found is None else _identity(found)


def _identity(found: Accelerator) -> str:
    return "|".join((found.identity, found.name, str(found.memory_total), found.driver))


def estimates_folder() -> Path:
    """Where estimates are kept; DUOTAIL_CACHE_DIR chooses another place."""
    return speeds_folder().with_name("estimates")


class KeptEstimates:
    """The estimates in one folder. Thread-safe; several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or estimates_folder()
        self._lock = Lock()
        self._read: tuple[ModelEstimates, ...] | None = None

    def all(self) -> tuple[ModelEstimates, ...]:
        """Every model's, the one that was loaded last first."""
        with self._lock:
            if self._read is None:
                self._read = tuple(self._files())
            return self._read

    def refresh(self) -> None:
        """Read again what other processes may have written."""
        with self._lock:
            self._read = None

    def find(self, models: str) -> ModelEstimates | None:
        """Those of one pair."""
        return next((each for each in self.all() if each.models == models), None)

    def apply(self, machine: Machine) -> Machine:
        """A machine with all that is known of predictions on it."""
        kept = self.all()
        if not kept:
            return machine
        devices = [CPU, *(found.device for found in machine.usable)]
        corrections = (
            each.correction(device, identity_of(machine, device))
            for each in kept
            for device in devices
        )
        known = tuple(found for found in corrections if found != EXACT and _corrects(found))
        software = tuple(self._with_software(found) for found in machine.accelerators)
        return replace(machine, corrections=known, accelerators=software)

    def keep(self, estimates: ModelEstimates) -> None:
        """Write them down, in the place of those of the same models."""
        shortened = replace(estimates, loads=estimates.loads[:MOST_LOADS])
        others = tuple(each for each in self.all() if each.models != estimates.models)
        with self._lock:
            self._read = (shortened, *others)
        path = self.folder / f"{estimates.models}.json"
        part = self.folder / f"{estimates.models}-{os.getpid()}-{secrets.token_hex(4)}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(encoded(shortened), allow_nan=False), "utf-8")
            part.replace(path)
        except OSError as error:
            _log.info("estimates cannot be kept: %s", error)
            with suppress(OSError):
                part.unlink()

    def _with_software(self, found: Accelerator) -> Accelerator:
        """What its own software took in the newest load on it; a simulated one declares that."""
        if found.simulated or not found.device:
            return found
        identity = _identity(found)
        newest = (
            each.held.runtime
            for models in self.all()
            for load in models.loads
            for each in load.devices
            if (each.device, each.identity) == (found.device, identity) and each.held.runtime
        )
        return replace(found, software=next(newest, found.software))

    def _files(self) -> list[ModelEstimates]:
        try:
            found = [(_state(path), path) for path in self.folder.glob("*.json")]
        except OSError:
            return []
        found.sort(reverse=True)
        for _, path in found[MOST_FILES:]:
            with suppress(OSError):
                path.unlink()
        read = (_read(path, state) for state, path in found[:MOST_FILES])
        return [each for each in read if each is not None]


def _corrects(known: Correction) -> bool:
    return (known.target, known.draft, known.kv, known.workspace) != (1.0, 1.0, 1.0, 1.0)


def _state(path: Path) -> tuple[int, int]:
    """When it was written, and which file of that name it is: writing makes another one."""
    found = path.stat()
    return found.st_mtime_ns, found.st_ino


@lru_cache(maxsize=2 * MOST_FILES)
def _read(path: Path, _when: tuple[int, int]) -> ModelEstimates | None:
    """A file in a state: engines that follow each other need not read it again."""
    try:
        with path.open("rb") as stream:
            found = decoded(ModelEstimates, json.loads(stream.read(MOST_BYTES)), "file")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        _log.info("kept estimates are not used: %r", error)
        return None
    return found if found.version == VERSION and found.models == path.stem else None
