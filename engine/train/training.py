"""One training from its settings to the finished folder, or to a checkpoint to go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shutil import rmtree
from time import monotonic

import numpy as np
import torch
from torch import Tensor

from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS
from engine.train.batches import Batch, Batches, nothing_to_learn
from engine.train.checkpoint import FILE, Checkpoint, Progress
from engine.train.conversations import find_sources
from engine.train.draft_folder import write_draft
from engine.train.drawing import Drawing
from engine.train.learners import (
    DraftVocabulary,
    HeadLearner,
    Learner,
    LossWeights,
    ModelLearner,
)
from engine.train.modules import Draft
from engine.train.projected import projected
from engine.train.recording import Recorder, Recording, shard_files
from engine.train.sequences import Renderer
from engine.train.shapes import DraftKind, head_config, model_config
from engine.train.target_recorder import RecordingReport, TargetRecorder
from engine.train.targets import Target, opened
from engine.train.trainer import Schedule, Trainer, accepted_length

_RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Shape:
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
class Settings:
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
        steps: see `HeadLearner`; None: as the kind's authors do.
        every: seconds between checkpoints; `every_steps`: also after so many steps.
        measure_every: seconds between estimates of the acceptance.
        held_out: tokens that it is estimated on.
    """

    model: Path
    data: tuple[Path, ...]
    out: Path
    shape: Shape = Shape()
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
    batch: int = 4096
    noise: float = 51.2
    steps: int | None = None
    seed: int = 0
    resume: bool = False
    every: float = 300.0
    every_steps: int | None = None
    measure_every: float = 120.0
    held_out: int = 8192


@dataclass(frozen=True, slots=True)
class Report:
    """How a training stands.

    Attributes:
        acceptance_length: as last estimated on held-out texts; None: not yet.
        tokens_per_s: of this sitting.
        seconds_left: None: it cannot be told yet.
    """

    progress: Progress
    done: float
    acceptance_length: float | None
    tokens_per_s: float
    seconds_left: float | None


@dataclass(frozen=True, slots=True)
class Result:
    """A finished training.

    Attributes:
        parameters: numbers that were trained.
        skipped: lines of the data without an example.
        covered: share of the answers' tokens that the draft can propose.
    """

    out: Path
    progress: Progress
    acceptance_length: float
    parameters: int
    skipped: int
    covered: float


class Paused(Exception):
    """The user stopped a training; its checkpoint is written."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


def train(
    settings: Settings,
    tell: Callable[[Report], None],
    stopped: Callable[[], bool],
    tell_recording: Callable[[RecordingReport], None] = lambda _report: None,
) -> Result:
    """Record what the target does, train on it, and write the draft.

    Args:
        settings: what and how.
        tell, tell_recording: told about once a second.
        stopped: asked after every step.

    Raises:
        Paused: `stopped` said so.
        UserFixable: something is wrong with the target, the data, the folder or the settings.
    """
    device = _device(settings.device)
    halves = settings.halves if settings.halves is not None else _has_fast_halves(device)
    if device.type == "cpu":
        torch.set_num_threads(settings.threads or torch.get_num_threads())
    _check_folder(settings)
    drawing = Drawing(find_sources(list(settings.data)), settings.seed)
    longest = settings.longest or 1024
    folder = settings.recording or settings.out / _RECORDING
    place = torch.device("cpu") if settings.own_answers else device
    with opened(settings.model, settings.format, place, settings.threads, longest) as target:
        longest = _longest(settings, target.config)
        config = _config(settings.shape, target.config)
        identity = _identity(settings, target, config, longest)
        begun = _begun(settings, folder)
        if begun is not None and begun.identity != identity:
            raise _another(settings.out)
        torch.manual_seed(settings.seed)
        draft = Draft(config)
        if settings.shape.begin is not None:
            load_weights(draft, settings.shape.begin)
        with _making(settings.out):
            told = _record(
                settings, config, target, drawing, folder, longest, tell_recording, stopped
            )
            with Recording(folder, told) as recording:
                batches = _batches(settings, config, recording, longest)
                held_out = batches.held_out(settings.held_out)
                ids, covered = most_written(recording, config)
                learner = _learner(settings, draft, config, target, ids, device, halves=halves)
                trainer = Trainer(
                    learner, settings.schedule, device, settings.seed, halves=halves, begun=begun
                )
                sitting = _Sitting(
                    settings, trainer, identity, held_out, device, halves, tell, stopped
                )
                every = batches.from_place(trainer.progress.place)
                progress = trainer.run(lambda: next(every), sitting.after_step)
                acceptance = accepted_length(learner, held_out, device, halves=halves)
            weights = dict(draft.named_parameters())
            name = f"{target.name} {settings.shape.kind}-{config.num_layers}"
            detached = {key: value.detach().cpu() for key, value in weights.items()}
            if ids is not None:
                detached[HEAD_IDS] = ids
            write_draft(settings.out, name, config, detached, target)
    (settings.out / FILE).unlink(missing_ok=True)
    if settings.recording is None:
        rmtree(folder, ignore_errors=True)
    numbers = sum(weight.numel() for weight in weights.values())
    return Result(settings.out, progress, acceptance, numbers, drawing.skipped, covered)


def _record(
    settings: Settings,
    config: ModelConfig,
    target: Target,
    drawing: Drawing,
    folder: Path,
    longest: int,
    tell: Callable[[RecordingReport], None],
    stopped: Callable[[], bool],
) -> str:
    """Record what is missing; returns the identity of the recording.

    Drafts of the same taps can be trained from one recording, whatever else they are like.
    """

    def told(report: RecordingReport) -> None:
        tell(report)
        if stopped():
            raise Paused(Progress())

    taps = config.fusion.taps if config.fusion else ()
    data = [f"{source.path.name}:{source.size}" for source in find_sources(list(settings.data))]
    how = f"own {settings.longest_answer}" if settings.own_answers else "given"
    identity = f"{target.identity} | {' '.join(data)} | {how} {longest} {settings.seed} | {taps}"
    recorder = Recorder(folder, identity)
    target_recorder = TargetRecorder(target, taps, longest, recorder, settings.recorded, told)
    examples = drawing.go_to(0, 0)
    if settings.own_answers:
        target_recorder.answer(examples, settings.longest_answer, settings.seed)
    else:
        renderer = Renderer(target.tokenizer, target.template, longest)
        target_recorder.read(examples, renderer)
    return identity


def _batches(
    settings: Settings, config: ModelConfig, recording: Recording, longest: int
) -> Batches:
    taps = len(config.fusion.taps) if config.fusion else 0
    return Batches(recording, taps, max(settings.batch, longest), settings.seed)


class _Sitting:
    """What happens beside the steps: checkpoints, estimates, reports, the end."""

    def __init__(
        self,
        settings: Settings,
        trainer: Trainer,
        identity: str,
        held_out: list[Batch],
        device: torch.device,
        halves: bool,
        tell: Callable[[Report], None],
        stopped: Callable[[], bool],
    ) -> None:
        self._settings, self._trainer, self._identity = settings, trainer, identity
        self._held_out, self._device, self._tell, self._stopped = held_out, device, tell, stopped
        self._halves = halves
        self._begun, self._first = monotonic(), trainer.progress
        self._saved = self._told = self._begun
        self._measured = -settings.measure_every
        self._acceptance: float | None = None

    def after_step(self, progress: Progress) -> None:
        """See `Trainer.run`."""
        now, settings = monotonic(), self._settings
        if self._stopped():
            self._save()
            raise Paused(progress)
        by_steps = settings.every_steps and progress.steps % settings.every_steps == 0
        if by_steps or now - self._saved >= settings.every:
            self._save()
            self._saved = now
        if now - self._measured >= settings.measure_every:
            learner = self._trainer.learner
            self._acceptance = accepted_length(
                learner, self._held_out, self._device, halves=self._halves
            )
            self._measured = monotonic()
        if now - self._told >= 1.0 or progress.steps == 1:
            self._tell(self._report(progress))
            self._told = now

    def _save(self) -> None:
        self._trainer.checkpoint(self._identity).write(self._settings.out)

    def _report(self, progress: Progress) -> Report:
        spent = monotonic() - self._begun
        schedule, done = self._settings.schedule, self._settings.schedule.done(progress)
        gained = done - schedule.done(self._first)
        return Report(
            progress,
            done,
            self._acceptance,
            (progress.tokens - self._first.tokens) / max(spent, 1e-6),
            spent / gained * (1 - done) if gained > 0 else None,
        )


def _device(wanted: str) -> torch.device:
    try:
        if wanted == "auto":
            wanted = "cuda:0" if torch.cuda.is_available() else "cpu"
        device = torch.device(wanted)
    except RuntimeError as error:
        raise UserFixable(
            tr("There is no device “{name}”.").format(name=wanted[:100]),
            tr("Choose auto, cpu or cuda:0."),
            str(error)[:500],
        ) from error
    if device.type not in ("cpu", "cuda") or (
        device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count()
    ):
        raise UserFixable(
            tr("There is no device “{name}” here that can train.").format(name=wanted[:100]),
            tr("Choose auto or cpu."),
        )
    return device


def _has_fast_halves(device: torch.device) -> bool:
    """Whether products in bf16 are faster than in fp32."""
    return device.type == "cuda" or bool(torch.cpu._is_avx512_bf16_supported())  # noqa: SLF001


def _check_folder(settings: Settings) -> None:
    """Nothing that is there already may be lost."""
    out = settings.out
    if (out / "config.json").exists():
        raise UserFixable(
            tr("{folder} holds a model already.").format(folder=out),
            tr("Choose another folder, or delete this one."),
        )
    if not settings.resume and (out / FILE).exists():
        raise UserFixable(
            tr("{folder} holds an unfinished training.").format(folder=out),
            tr("Go on with it by --resume, or choose another folder."),
        )


@contextmanager
def _making(folder: Path) -> Iterator[None]:
    """The folder is there; an empty one does not stay behind where nothing came of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserFixable(
            tr("The folder {folder} cannot be made.").format(folder=folder),
            tr("Choose a folder that you may write to."),
            str(error),
        ) from error
    try:
        yield
    except BaseException:
        with suppress(OSError):
            folder.rmdir()
        raise


def _identity(settings: Settings, target: Target, config: ModelConfig, longest: int) -> str:
    """What has to be the same for a training to go on; its end and its pace may change."""
    data = [f"{source.path}:{source.size}" for source in find_sources(list(settings.data))]
    muon = settings.schedule.muon is not None
    numbers = settings.batch, longest, settings.seed, settings.noise, settings.steps, muon
    return f"{target.identity} | {config} | {' '.join(data)} | {numbers} {settings.recorded}"


def _longest(settings: Settings, target: ModelConfig) -> int:
    most = target.max_positions
    if settings.longest is not None and settings.longest > most:
        raise UserFixable(
            tr(
                "Sequences of {wanted} tokens are longer than the model's context of {most}."
            ).format(wanted=settings.longest, most=most),
            tr("Choose at most {most}.").format(most=most),
        )
    return min(settings.longest or 1024, most)


def _config(shape: Shape, target: ModelConfig) -> ModelConfig:
    rows = shape.rows if shape.rows is not None and shape.rows < target.vocab_size else None
    if shape.kind is not DraftKind.MODEL:
        return head_config(target, shape.kind, shape.blocks, shape.intermediate, rows)
    hidden = shape.hidden or max(target.hidden_size // 2, 64)
    return model_config(
        target,
        hidden=hidden,
        blocks=shape.blocks,
        heads=shape.heads or max(hidden // 64, 1),
        intermediate=shape.intermediate or hidden * 11 // 4,
        rows=rows,
    )


def _begun(settings: Settings, folder: Path) -> Checkpoint | None:
    """What to go on from; None where nothing was learned yet, though something may be recorded."""
    recorded = not (settings.out / FILE).exists() and shard_files(folder)
    return Checkpoint.read(settings.out) if settings.resume and not recorded else None


def _learner(
    settings: Settings,
    draft: Draft,
    config: ModelConfig,
    target: Target,
    ids: Tensor | None,
    device: torch.device,
    *,
    halves: bool,
) -> Learner:
    embedding, output = target.matrices(device, halves=halves)
    vocabulary = DraftVocabulary.of(output, None if ids is None else ids.to(device))
    fresh = settings.shape.begin is None
    if fresh and config.fusion is None:
        draft.begin_embedding(projected(embedding, config.hidden_size))
        if ids is not None:
            draft.begin_output(draft.model.embed_tokens.weight[ids])
    elif fresh and config.fusion is not None and config.fusion.own_head:
        draft.begin_output(vocabulary.output.matrix.float())
    draft.to(device)
    if config.fusion is None:
        return ModelLearner(draft, vocabulary)
    eagle3 = config.fusion.kind == "eagle3"
    weights = LossWeights(regression=0.0, labels=1.0) if eagle3 else LossWeights()
    steps = settings.steps or (5 if eagle3 else 1)
    return HeadLearner(draft, embedding, vocabulary, weights, steps, settings.noise)


def most_written(recording: Recording, config: ModelConfig) -> tuple[Tensor | None, float]:
    """The tokens that a draft proposes: those that the answers have most often.

    Returns:
        int64 [rows], ascending (None: all of the vocabulary), and the share of the answers' tokens
        that they are.

    Raises:
        UserFixable: nothing was recorded.
    """
    written = [
        tokens[marks] for tokens, marks in zip(recording.tokens, recording.answers, strict=True)
    ]
    if not written:
        raise nothing_to_learn()
    counts = torch.bincount(torch.from_numpy(np.concatenate(written)), minlength=config.vocab_size)
    if config.rows is None:
        return None, 1.0
    ids = counts.argsort(descending=True, stable=True)[: config.rows].sort().values
    return ids, float(counts[ids].sum() / counts.sum())


def load_weights(draft: Draft, folder: Path) -> None:
    """Begin with the weights of a draft that is there.

    Raises:
        UserFixable: it is none, or of another shape.
    """
    from engine.model.weights.safetensors_folder import SafetensorsFolder

    stored = SafetensorsFolder.open(folder)
    named = dict(draft.named_parameters())
    for name, parameter in named.items():
        if name not in stored.names() or stored.shape(name) != tuple(parameter.shape):
            raise UserFixable(
                tr("The draft in {folder} has another shape.").format(folder=folder),
                tr("Give the shape that it has, or begin without it."),
                name,
            )
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(stored.float32(name)))


def _another(folder: Path) -> UserFixable:
    return UserFixable(
        tr("The training in {folder} was begun with another model, other data or settings.").format(
            folder=folder
        ),
        tr("Give the same ones, or choose another folder."),
    )
