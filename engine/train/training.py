"""One training from its settings to the finished folder, or to a checkpoint to go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

import torch

from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.train.batches import Batches
from engine.train.checkpoint import FILE, Checkpoint, Progress
from engine.train.conversations import find_sources
from engine.train.draft_folder import write_draft
from engine.train.drawing import Drawing
from engine.train.learners import HeadLearner, Learner, LossWeights, ModelLearner
from engine.train.modules import Draft
from engine.train.projected import projected
from engine.train.sequences import Renderer
from engine.train.shapes import DraftKind, head_config, model_config
from engine.train.streaming import FeatureBatch, Features, FeatureStream
from engine.train.targets import Target, opened
from engine.train.trainer import Schedule, Trainer, accepted_length


@dataclass(frozen=True, slots=True)
class Shape:
    """What is trained; None: as the target has it, or as suits the kind.

    Attributes:
        blocks: depth of a head, or of a model.
        hidden, heads: of a model of its own.
        intermediate: width of the feed-forwards.
        begin: a draft folder of the same shape whose weights it begins with.
    """

    kind: DraftKind = DraftKind.DGF
    blocks: int = 1
    hidden: int | None = None
    heads: int | None = None
    intermediate: int | None = None
    begin: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """A training.

    Attributes:
        model: the target, a folder or GGUF file.
        data: files and folders.
        out: the folder of the result.
        halves: products in bf16; None: on accelerators.
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
        skipped: lines of the data without an example; `cut`: examples that were too long.
    """

    out: Path
    progress: Progress
    acceptance_length: float
    parameters: int
    skipped: int
    cut: int


class Paused(Exception):
    """The user stopped a training; its checkpoint is written."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


def train(
    settings: Settings, tell: Callable[[Report], None], stopped: Callable[[], bool]
) -> Result:
    """Train and write the draft.

    Args:
        settings: what and how.
        tell: told about once a second.
        stopped: asked after every step.

    Raises:
        Paused: `stopped` said so.
        UserFixable: something is wrong with the target, the data, the folder or the settings.
    """
    device = _device(settings.device)
    halves = device.type == "cuda" if settings.halves is None else settings.halves
    if device.type == "cpu":
        torch.set_num_threads(settings.threads or torch.get_num_threads())
    _check_folder(settings)
    sources = find_sources(list(settings.data))
    longest = settings.longest or 2048
    with opened(settings.model, settings.format, device, settings.threads, longest) as target:
        longest = _longest(settings, target.config)
        drawing = Drawing(sources, settings.seed)
        renderer = Renderer(target.tokenizer, target.template, longest)
        batches = Batches(drawing, renderer, max(settings.batch, longest), settings.seed)
        config = _config(settings.shape, target.config)
        identity = _identity(settings, target, config, longest)
        begun = Checkpoint.read(settings.out) if settings.resume else None
        if begun is not None and begun.identity != identity:
            raise _another(settings.out)
        features = Features(target.decoder, config.fusion.taps if config.fusion else (), longest)
        held_out = [features.of(batch) for batch in batches.held_out(settings.held_out)]
        learner = _learner(settings, config, target, device, halves=halves)
        trainer = Trainer(
            learner, settings.schedule, device, settings.seed, halves=halves, begun=begun
        )
        sitting = _Sitting(settings, trainer, identity, held_out, device, halves, tell, stopped)
        with (
            _making(settings.out),
            FeatureStream(batches.from_place(trainer.progress.place), features) as stream,
        ):
            progress = trainer.run(stream.next, sitting.after_step)
        acceptance = accepted_length(learner, held_out, device, halves=halves)
        weights = dict(learner.draft.named_parameters())
        name = f"{target.name} {settings.shape.kind}-{config.num_layers}"
        detached = {key: value.detach().cpu() for key, value in weights.items()}
        write_draft(settings.out, name, config, detached, target)
    (settings.out / FILE).unlink(missing_ok=True)
    numbers = sum(weight.numel() for weight in weights.values())
    return Result(settings.out, progress, acceptance, numbers, drawing.skipped, batches.cut)


class _Sitting:
    """What happens beside the steps: checkpoints, estimates, reports, the end."""

    def __init__(
        self,
        settings: Settings,
        trainer: Trainer,
        identity: str,
        held_out: list[FeatureBatch],
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
    return f"{target.identity} | {config} | {' '.join(data)} | {numbers}"


def _longest(settings: Settings, target: ModelConfig) -> int:
    most = target.max_positions
    if settings.longest is not None and settings.longest > most:
        raise UserFixable(
            tr(
                "Sequences of {wanted} tokens are longer than the model's context of {most}."
            ).format(wanted=settings.longest, most=most),
            tr("Choose at most {most}.").format(most=most),
        )
    return min(settings.longest or 2048, most)


def _config(shape: Shape, target: ModelConfig) -> ModelConfig:
    if shape.kind is not DraftKind.MODEL:
        return head_config(target, shape.kind, shape.blocks, shape.intermediate)
    hidden = shape.hidden or max(target.hidden_size // 2, 64)
    return model_config(
        target,
        hidden=hidden,
        blocks=shape.blocks,
        heads=shape.heads or max(hidden // 64, 1),
        intermediate=shape.intermediate or hidden * 11 // 4,
    )


def _learner(
    settings: Settings, config: ModelConfig, target: Target, device: torch.device, *, halves: bool
) -> Learner:
    torch.manual_seed(settings.seed)
    draft = Draft(config)
    embedding, output = target.matrices(device, halves=halves)
    if settings.shape.begin is not None:
        load_weights(draft, settings.shape.begin)
    elif config.fusion is None:
        draft.begin_embedding(projected(embedding, config.hidden_size))
    draft.to(device)
    if config.fusion is None:
        return ModelLearner(draft, output)
    eagle3 = config.fusion.kind == "eagle3"
    weights = LossWeights(regression=0.0, labels=1.0) if eagle3 else LossWeights()
    steps = settings.steps or (5 if eagle3 else 1)
    return HeadLearner(draft, embedding, output, weights, steps, settings.noise)


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
