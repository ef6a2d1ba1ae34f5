"""Settings of a training: the target, the data, the draft's shape, the schedule."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engine.commands import WeightFormat


class DraftKind(StrEnum):
    """Kinds of drafts: heads of Dovetail (DGF), EAGLE and EAGLE-3, and a model of its own."""

    DGF = "dgf"
    EAGLE = "eagle"
    EAGLE3 = "eagle3"
    MODEL = "model"


class PackedKind(StrEnum):
    """Types of ggml that a trained draft's matrices can be packed in."""

    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_1 = "q4_1"


@dataclass(frozen=True, slots=True)
class DraftShape:
    """Shape of the draft; None: as in the target, or as suits the kind.

    Attributes:
        blocks: depth of a head, or of a model.
        hidden, heads: of a model of its own.
        intermediate: width of the feed-forwards.
        rows: tokens that it can propose, those that the target writes most; larger vocabularies
            are reduced to them.
        borrows: the output rows of a head are the target's: they are neither trained nor stored.
        begin: a draft folder of the same shape whose weights it begins with.
    """

    kind: DraftKind = DraftKind.DGF
    blocks: int = 1
    hidden: int | None = None
    heads: int | None = None
    intermediate: int | None = None
    rows: int = 8192
    borrows: bool = False
    begin: Path | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """Length of a training, and its learning rates.

    Attributes:
        tokens: the end, unless it is told by `seconds`.
        seconds: the end, in time spent on steps.
        rate: highest learning rate of AdamW; rates rise over `warm_up` steps, then fall linearly
            to 0.
        muon: highest rate of Muon for the matrices of the blocks, which a small draft learns far
            faster with; 0: AdamW learns everything, as the papers' authors do it.
        warm_up: steps, but at most a twentieth of the training.
        clip: gradients are clipped to +- this, number by number; 0: not at all.
        decay: weight decay of matrices; with Muon only of the blocks' own.
    """

    tokens: int = 2_000_000
    seconds: float | None = None
    rate: float = 6e-4
    muon: float = 0.02
    warm_up: int = 20
    clip: float = 0.5
    decay: float = 0.05

    def done(self, tokens: int, seconds: float) -> float:
        """Return how much of the training is done after so many tokens and seconds, 0 to 1."""
        done = tokens / self.tokens if self.seconds is None else seconds / self.seconds
        return min(done, 1.0)

    def factor(self, steps: int, done: float) -> float:
        """Return what the rates are multiplied with in the next step.

        Args:
            steps: that were made.
            done: how much of the training is done, see `done`.
        """
        rising = (steps + 1) / max(self.warm_up, 1)
        if steps:
            rising = max(rising, 20 * done)
        return min(rising, 1.0) * (1 - done)


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """Settings of a training.

    Attributes:
        model: the target, a folder or GGUF file.
        data: files and folders.
        out: the folder of the result.
        own_answers: the target answers what the data ask; otherwise their answers are learned from.
        recorded: tokens that the target's states are recorded of, once, on disk.
        recording: folder of the recording; None: one in `out`, deleted when the draft is finished.
        longest_answer: tokens after which an answer of the target's own is cut.
        halves: products in bf16; None: where they are faster.
        longest: tokens after which an example is cut; None: 1024, or the target's context.
        batch: tokens of a batch, pads included.
        noise: see `Learner`.
        steps: see `Learner`; None: 5 of EAGLE-3, as its authors do, otherwise 2.
        every: seconds between checkpoints.
        every_steps: steps between checkpoints; None: they are not counted.
        measure_every: seconds between estimates of the acceptance length.
        held_out: tokens that it is estimated on.
        packed: type of a packed copy, written to a folder beside `out`; None: no copy.
    """

    model: Path
    data: tuple[Path, ...]
    out: Path
    shape: DraftShape = DraftShape()
    schedule: Schedule = Schedule()
    own_answers: bool = True
    recorded: int = 1_000_000
    recording: Path | None = None
    longest_answer: int = 256
    format: WeightFormat = WeightFormat.AUTO
    device: str = "auto"
    halves: bool | None = None
    threads: int | None = None
    longest: int | None = None
    batch: int = 2048
    noise: float = 20.0
    steps: int | None = None
    seed: int = 0
    resume: bool = False
    every: float = 300.0
    every_steps: int | None = None
    measure_every: float = 120.0
    held_out: int = 8192
    packed: PackedKind | None = None
