"""Checkpoints: one safetensors file with weights, optimiser state and, in its header, progress.

It is replaced as a whole, so that whatever stops the process leaves the last one intact.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.train.batches import BatchPlace
from engine.train.recording import write_whole

FILE = "training.safetensors"
_VERSION = "2"


@dataclass(frozen=True, slots=True)
class TrainingProgress:
    """Progress of a training.

    Attributes:
        steps, tokens: done.
        seconds: spent on steps, in all runs.
        place: the next batch's.
        loss, agreement: exponential means over the last steps.
    """

    steps: int = 0
    tokens: int = 0
    seconds: float = 0.0
    place: BatchPlace = field(default_factory=BatchPlace)
    loss: float = 0.0
    agreement: float = 0.0


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State of an unfinished training.

    Attributes:
        identity: of target, data and settings; only a training of the same identity resumes it.
        tensors: see `engine.train.trainer.Optimisers.tensors`.
    """

    identity: str
    progress: TrainingProgress
    tensors: Mapping[str, Tensor]

    def write(self, folder: Path) -> None:
        """Replace the folder's checkpoint.

        Raises:
            UserFixable: the disk is full, or cannot be written to.
        """
        state = json.dumps(asdict(self.progress))
        header = {"version": _VERSION, "identity": self.identity, "progress": state}
        write_whole(folder / FILE, save(dict(self.tensors), header))

    @classmethod
    def read(cls, folder: Path, identity: str) -> Checkpoint:
        """Read the folder's checkpoint.

        Raises:
            UserFixable: there is none, it is damaged, or of another identity.
        """
        file = folder / FILE
        if not file.exists():
            raise UserFixable(
                tr("There is no unfinished training in {folder}.").format(folder=folder),
                tr("Leave out --resume to start one."),
            )
        try:
            with safe_open(file, "pt") as stream:
                header = stream.metadata() or {}
                if header.get("version") != _VERSION:
                    raise ValueError("another version")
                state = json.loads(header["progress"])
                progress = TrainingProgress(**{**state, "place": BatchPlace(**state["place"])})
                tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118
                found = cls(header["identity"], progress, tensors)
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise UserFixable(
                tr("The checkpoint in {folder} cannot be read.").format(folder=folder),
                tr("Delete the folder and start again."),
                str(error)[:500],
            ) from error
        if found.identity != identity:
            raise UserFixable(
                tr(
                    "The training in {folder} was begun with another model, other data or settings."
                ).format(folder=folder),
                tr("Give the same ones, or choose another folder."),
            )
        return found
