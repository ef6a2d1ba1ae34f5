"""What a training is told: the target, the data, the draft's shape and the pace."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from engine.commands import WeightFormat
from engine.train.shapes import DraftKind
from engine.train.trainer import Schedule


@dataclass(frozen=True, slots=True)
class DraftShape:
    """What is trained; None: as the target has it, or as suits the kind.

    Attributes:
        blocks: depth of a head, or of a model.
        hidden, heads: of a model of its own.
        intermediate: width of the feed-forwards.
        rows: tokens that it can propose, those that the target writes most; None: all.
        begin: a draft folder of the same shape whose weights it begins with.
    """

    kind: DraftKind = DraftKind.DGF
    blocks: int = 1
    hidden: int | None = None
    heads: int | None = None
    intermediate: int | None = None
    rows: int | None = None
    begin: Path | None = None


@dataclass(frozen=True, slots=True)
class TrainingSettings:
    """A training.

    Attributes:
        model: the target, a folder or GGUF file.
        data: files and folders.
        out: the folder of the result.
        own_answers: the target answers what the data ask; otherwise their answers are learned from.
        recorded: tokens that the target's states are recorded of, once, on disk.
        recording: folder of these; None: one in `out`, which goes when the draft is finished.
        longest_answer: tokens after which an answer of the target's own is cut.
        halves: products in bf16; None: where they are faster.
        longest: tokens after which an example is cut.
        batch: tokens of a batch, pads included.
        steps: see `HeadLearner`; None: 5 of EAGLE-3, as its authors do, otherwise 2.
        every: seconds between checkpoints; `every_steps`: also after so many steps.
        measure_every: seconds between estimates of the acceptance.
        held_out: tokens that it is estimated on.
    """

    model: Path
    data: tuple[Path, ...]
    out: Path
    shape: DraftShape = DraftShape()
    schedule: Schedule = field(default_factory=Schedule)
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
