"""What controllers have learnt of pairs of models, kept on disk for the next start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from engine.devices.kept_files import KeptFiles, cache_subfolder
from engine.devices.kept_speeds import identity
from engine.machine.facts import Machine
from engine.plan.plan import Plan
from engine.speculative.costs import Learnt

VERSION = 1
"""Version of the files; those of another version count as absent."""

MOST_KEPT = 32


@dataclass(frozen=True, slots=True)
class _LearntFile:
    """Content of a file."""

    identity: str
    learnt: Learnt


def learnt_folder() -> Path:
    """Return the folder of what was learnt; DUOTAIL_CACHE_DIR chooses another place."""
    return cache_subfolder("learnt")


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
    facts = VERSION, identity(machine, threads), models, placing
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


class KeptLearnt:
    """The learnt values in one folder. Several processes may use it: the last to write wins."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or learnt_folder()
        self._files = KeptFiles(
            _LearntFile, self.folder, lambda file: file.identity, most=MOST_KEPT
        )

    def find(self, pair: str) -> Learnt | None:
        """Return what was learnt of a pair, by its `pair_identity`."""
        found = self._files.find(pair)
        return None if found is None else found.learnt

    def keep(self, pair: str, learnt: Learnt) -> None:
        """Write it down, and delete the least recently used pairs."""
        self._files.keep(_LearntFile(pair, learnt))
