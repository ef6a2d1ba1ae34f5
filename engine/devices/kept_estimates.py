"""What plans said of a model's memory and what it held in truth, kept on disk to be looked up.

One file for a target with its draft, with its last loads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from threading import Lock

from engine.kept_files import KeptFiles, cache_subfolder
from engine.machine.facts import CPU, Accelerator, Machine
from engine.machine.memory import DeviceMemory

VERSION = 2
MOST_FILES, MOST_LOADS = 32, 8


@dataclass(frozen=True, slots=True)
class DeviceEstimate:
    """One device of one load.

    Attributes:
        identity: what stays the same from start to start; see `identity_of`.
        name: for people.
        predicted: as the plan had it.
        held: at most, in one conversation; sorted as plans sort it.
        touched: of all that is held, what the system has really handed out.
        system: what the system or the driver counts of it; None where nobody tells.
    """

    device: str
    identity: str
    name: str
    predicted: DeviceMemory
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
        """Error of the predicted total, as a share of what was held."""
        predicted = sum(each.predicted.total for each in self.devices)
        held = sum(each.held.total for each in self.devices)
        return (predicted - held) / held if held else 0.0


@dataclass(frozen=True, slots=True)
class ModelEstimates:
    """A target with its draft; `models` is their `engine.plan.facts.key_of`, loads newest first."""

    models: str
    target: str
    draft: str
    weights: str
    loads: tuple[LoadEstimate, ...]
    version: int = VERSION

    @property
    def largest_error(self) -> float:
        """Largest size of the plans' errors; 0 before the first answer."""
        return max((abs(load.error) for load in self.loads if load.answers), default=0.0)

    @property
    def typical_error(self) -> float | None:
        """Median size of the plans' errors; None before the first answer."""
        errors = [abs(load.error) for load in self.loads if load.answers]
        return median(errors) if errors else None


def identity_of(machine: Machine, device: str) -> str:
    """Return a text that tells devices apart which plans call by the same name."""
    if device == CPU:
        return CPU
    found = next((each for each in machine.accelerators if each.device == device), None)
    return "" if found is None else _identity(found)


def _identity(found: Accelerator) -> str:
    return "|".join((found.identity, found.name, str(found.memory_total), found.driver))


def estimates_folder() -> Path:
    """Return the folder of kept estimates; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_subfolder("estimates")


class KeptEstimates:
    """The estimates in one folder. Thread-safe; several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or estimates_folder()
        self._files = KeptFiles(ModelEstimates, self.folder, _file_name, most=MOST_FILES)
        self._lock = Lock()
        self._read: tuple[ModelEstimates, ...] | None = None

    def all(self) -> tuple[ModelEstimates, ...]:
        """Return the estimates of every model, last loaded first; read from disk once."""
        with self._lock:
            if self._read is None:
                self._read = tuple(self._files.all())
            return self._read

    def find(self, models: str) -> ModelEstimates | None:
        """Return the estimates of one pair."""
        return next((each for each in self.all() if each.models == models), None)

    def apply(self, machine: Machine) -> Machine:
        """Return the machine with the measured bytes of each accelerator's own software."""
        found = tuple(self._with_software(each) for each in machine.accelerators)
        return machine if found == machine.accelerators else replace(machine, accelerators=found)

    def keep(self, estimates: ModelEstimates) -> None:
        """Write estimates down, replacing earlier ones of the same models."""
        shortened = replace(estimates, loads=estimates.loads[:MOST_LOADS])
        others = tuple(each for each in self.all() if each.models != estimates.models)
        with self._lock:
            self._read = (shortened, *others)
        self._files.keep(shortened)

    def _with_software(self, found: Accelerator) -> Accelerator:
        """Return an accelerator with its software's bytes in the newest load on it.

        Simulated accelerators are unchanged: they declare theirs.
        """
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


def _file_name(kept: ModelEstimates) -> str:
    """Name of the file; empty of one that another version has written."""
    return kept.models if kept.version == VERSION else ""
