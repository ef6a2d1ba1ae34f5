"""What controllers have learnt of pairs of models, kept on disk for the next start.

A folder of `IDENTITY.json`, named by a hash of the machine, the models and where they lie. As with
all that can be made anew, nothing that goes wrong with it (read-only, full, damaged, gone) is an
error.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from engine.hardware.kept_speeds import identity, replace_file, speeds_folder
from engine.hardware.typed_json import decoded, encoded
from engine.machine.facts import Machine
from engine.plan.plan import Plan
from engine.speculative.costs import Learnt

VERSION = 1
"""Version of the files; those of another version count as absent."""

MOST_KEPT = 32
MOST_BYTES = 1 << 16

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What a file holds."""

    identity: str
    learnt: Learnt


def learnt_folder() -> Path:
    """Where it is kept; DUOTAIL_CACHE_DIR chooses another place."""
    return speeds_folder().with_name("learnt")


def pair_identity(machine: Machine, threads: int, models: str, plan: Plan) -> str:
    """A hash of what costs and acceptance depend on.

    Args:
        machine: what the plan is for.
        threads: that compute unless the plan says otherwise.
        models: the `engine.plan.known.key_of` of target and draft.
        plan: where they lie, and how they decode.
    """
    shares = [(share.device, list(share.blocks)) for share in plan.target]
    placing = str(plan.mode), shares, plan.draft_device, plan.lookup, plan.threads
    facts = VERSION, identity(machine, threads), models, placing
    return blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


class KeptLearnt:
    """What is in one folder. Several processes may use it at once: the last one to write wins."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or learnt_folder()

    def find(self, pair: str) -> Learnt | None:
        """What was learnt of a pair, by its `pair_identity`."""
        try:
            with self._path(pair).open("rb") as stream:
                kept = decoded(_Kept, json.loads(stream.read(MOST_BYTES)), "file")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _log.info("what was learnt is not used: %r", error)
            return None
        return kept.learnt if kept.identity == pair else None

    def keep(self, pair: str, learnt: Learnt) -> None:
        """Write it down, and forget the pairs that were used least lately."""
        content = json.dumps(encoded(_Kept(pair, learnt)), allow_nan=False)
        replace_file(self._path(pair), content, most=MOST_KEPT)

    def _path(self, pair: str) -> Path:
        return self.folder / f"{pair}.json"
