"""What was measured here, kept on disk until the hardware changes.

Calibration measures the speeds of the machine, controllers learn the costs of pairs of models.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from importlib import metadata
from pathlib import Path

from engine.devices.machine_file import check_speeds
from engine.kept_files import KeptFiles, cache_subfolder
from engine.machine.cores import default_threads
from engine.machine.facts import Machine
from engine.machine.reached import Reached
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan
from engine.speculative.costs import Learnt
from engine.typed_json import WrongMember

SPEEDS_VERSION = 3
"""Version of the method of measuring: speeds of another version are worthless."""
LEARNT_VERSION = 1
"""Version of what is learnt; that of another version counts as absent."""

MOST_SPEEDS, MOST_LEARNT = 8, 32
"""Files that are kept."""
MOST_REACHED = 64
"""Placements of a machine whose speeds are kept."""
GIB = 2**30


@dataclass(frozen=True, slots=True)
class _SpeedsFile:
    """Content of a file."""

    identity: str
    speeds: Speeds


@dataclass(frozen=True, slots=True)
class _LearntFile:
    """Content of a file."""

    identity: str
    learnt: Learnt


def speeds_folder() -> Path:
    """Return the folder of kept speeds; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_subfolder("speeds")


def identity(machine: Machine, threads: int) -> str:
    """A hash of what speeds depend on: hardware, drivers, kernels, and how many threads compute."""
    host = machine.host
    real = [found for found in machine.accelerators if not found.simulated and not found.unusable]
    facts = (
        *(SPEEDS_VERSION, host.name, host.cores, host.threads, host.fast_cores, threads),
        *(host.memory_total // GIB, host.instruction_sets, host.kernels, _native_build()),
        [
            (found.device, found.name, found.identity, found.driver, found.memory_total)
            for found in real
        ],
        _torch() if real else "",
    )
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


class KeptSpeeds:
    """The speeds in one folder. Several processes may use it at once."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or speeds_folder()
        self._files = KeptFiles(
            _SpeedsFile, self.folder, lambda file: file.identity, most=MOST_SPEEDS
        )

    def find(self, machine: Machine, threads: int) -> Speeds | None:
        """Return the speeds that were measured on this very machine; None where there are none."""
        found = self._files.find(identity(machine, threads))
        if found is None:
            return None
        try:
            check_speeds(found.speeds)
        except WrongMember:  # damaged: it is measured anew
            return None
        return found.speeds

    def keep(self, machine: Machine, threads: int, speeds: Speeds) -> None:
        """Write speeds down, and delete those of earlier machines."""
        self._files.keep(_SpeedsFile(identity(machine, threads), speeds))


def learnt_folder() -> Path:
    """Return the folder of what was learnt; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_subfolder("learnt")


def adapters_folder() -> Path:
    """Return the folder of what WebGPU has found; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_subfolder("adapters")


def pair_identity(machine: Machine, threads: int, models: str, plan: Plan) -> str:
    """A hash of what costs and acceptance depend on.

    Args:
        machine: what the plan is for.
        threads: that compute unless the plan says otherwise.
        models: the `engine.plan.facts.key_of` of target and draft.
        plan: where they lie, and how they decode.
    """
    shares = [(share.device, list(share.blocks)) for share in plan.target]
    placing = str(plan.mode), shares, plan.draft_device, plan.lookup, plan.threads
    facts = LEARNT_VERSION, identity(machine, threads), models, placing
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


class KeptLearnt:
    """The learnt values in one folder. Several processes may use it: the last to write wins."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or learnt_folder()
        self._files = KeptFiles(
            _LearntFile, self.folder, lambda file: file.identity, most=MOST_LEARNT
        )

    def find(self, pair: str) -> Learnt | None:
        """Return what was learnt of a pair, by its `pair_identity`."""
        found = self._files.find(pair)
        return None if found is None else found.learnt

    def keep(self, pair: str, learnt: Learnt) -> None:
        """Write it down, and delete the least recently used pairs."""
        self._files.keep(_LearntFile(pair, learnt))


@dataclass(frozen=True, slots=True)
class _ReachedFile:
    """Content of a file."""

    identity: str
    reached: tuple[Reached, ...]


class KeptReached:
    """The speeds that answers reached, in one folder.

    Several processes may use it: the last to write wins.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or cache_subfolder("reached")
        self._files = KeptFiles(
            _ReachedFile, self.folder, lambda file: file.identity, most=MOST_SPEEDS
        )

    def find(self, machine: Machine) -> tuple[Reached, ...]:
        """Return what answers reached on this machine, the newest first."""
        found = self._files.find(_with_simulated(machine))
        return () if found is None else found.reached

    def keep(self, machine: Machine, reached: Reached) -> None:
        """Write it down before all others, in place of what the placement reached earlier."""
        here = reached.models, reached.placement
        others = [each for each in self.find(machine) if (each.models, each.placement) != here]
        kept = (reached, *others[: MOST_REACHED - 1])
        self._files.keep(_ReachedFile(_with_simulated(machine), kept))


def _with_simulated(machine: Machine) -> str:
    """The machine's identity; a simulated accelerator makes another machine of it."""
    simulated = [found.memory_total for found in machine.accelerators if found.simulated]
    facts = identity(machine, default_threads()), simulated
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _native_build() -> str:
    """A hash of the native library; empty where there is none."""
    from engine.backend.native.library import FILE

    try:
        return blake2b(FILE.read_bytes()).hexdigest()
    except OSError:
        return ""


def _torch() -> str:
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return ""
