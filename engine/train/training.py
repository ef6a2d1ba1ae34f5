"""One training from its settings to the finished folder, or to a checkpoint to go on from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import numpy as np
import torch
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD_IDS
from engine.train.batches import Batches, nothing_to_learn
from engine.train.checkpoint import FILE, Checkpoint, TrainingProgress
from engine.train.conversations import find_sources
from engine.train.devices import has_fast_halves, training_device
from engine.train.draft_folder import write_draft
from engine.train.drawing import Drawing
from engine.train.learners import (
    DraftVocabulary,
    HeadLearner,
    Learner,
    LossWeights,
    ModelLearner,
)
from engine.train.modules import DraftModule
from engine.train.projected import projected
from engine.train.recording import Recording, RecordingWriter, shard_files
from engine.train.sequences import Renderer
from engine.train.settings import DraftShape, TrainingSettings
from engine.train.shapes import DraftKind, head_config, model_config
from engine.train.sitting import Paused, Sitting, TrainingReport
from engine.train.target_recorder import RecordingReport, TargetRecorder
from engine.train.targets import Target, opened
from engine.train.trainer import Trainer, accepted_length

_RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Result:
    """A finished training.

    Attributes:
        parameters: numbers that were trained.
        skipped: lines of the data without an example.
        covered: share of the answers' tokens that the draft can propose.
    """

    out: Path
    progress: TrainingProgress
    acceptance_length: float
    parameters: int
    skipped: int
    covered: float


def train(
    settings: TrainingSettings,
    tell: Callable[[TrainingReport], None],
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
    device = training_device(settings.device)
    halves = settings.halves if settings.halves is not None else has_fast_halves(device)
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
        draft, their_ids = DraftModule(config), None
        if settings.shape.begin is not None:
            their_ids = load_weights(draft, settings.shape.begin)
        with _making(settings.out):
            told = _record(
                settings, config, target, drawing, folder, longest, tell_recording, stopped
            )
            with Recording(folder, told) as recording:
                batches = _batches(settings, config, recording, longest)
                held_out = batches.held_out(settings.held_out)
                ids, covered = most_written(recording, config)
                learner = _learner(
                    settings, draft, config, target, ids, their_ids, device, halves=halves
                )
                trainer = Trainer(
                    learner, settings.schedule, device, settings.seed, halves=halves, begun=begun
                )
                sitting = Sitting(
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
    settings: TrainingSettings,
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
            raise Paused(TrainingProgress())

    taps = config.fusion.taps if config.fusion else ()
    data = [f"{source.path.name}:{source.size}" for source in find_sources(list(settings.data))]
    how = f"own {settings.longest_answer}" if settings.own_answers else "given"
    identity = f"{target.identity} | {' '.join(data)} | {how} {longest} {settings.seed} | {taps}"
    recorder = RecordingWriter(folder, identity)
    target_recorder = TargetRecorder(target, taps, longest, recorder, settings.recorded, told)
    examples = drawing.go_to(0, 0)
    if settings.own_answers:
        target_recorder.answer(examples, settings.longest_answer, settings.seed)
    else:
        renderer = Renderer(target.tokenizer, target.template, longest)
        target_recorder.read(examples, renderer)
    return identity


def _batches(
    settings: TrainingSettings, config: ModelConfig, recording: Recording, longest: int
) -> Batches:
    taps = len(config.fusion.taps) if config.fusion else 0
    return Batches(recording, taps, max(settings.batch, longest), settings.seed)


def _check_folder(settings: TrainingSettings) -> None:
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


def _identity(settings: TrainingSettings, target: Target, config: ModelConfig, longest: int) -> str:
    """What has to be the same for a training to go on; its end and its pace may change."""
    data = [f"{source.path}:{source.size}" for source in find_sources(list(settings.data))]
    muon = settings.schedule.muon is not None
    numbers = settings.batch, longest, settings.seed, settings.noise, settings.steps, muon
    return f"{target.identity} | {config} | {' '.join(data)} | {numbers} {settings.recorded}"


def _longest(settings: TrainingSettings, target: ModelConfig) -> int:
    most = target.max_positions
    if settings.longest is not None and settings.longest > most:
        raise UserFixable(
            tr(
                "Sequences of {wanted} tokens are longer than the model's context of {most}."
            ).format(wanted=settings.longest, most=most),
            tr("Choose at most {most}.").format(most=most),
        )
    return min(settings.longest or 1024, most)


def _config(shape: DraftShape, target: ModelConfig) -> ModelConfig:
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


def _begun(settings: TrainingSettings, folder: Path) -> Checkpoint | None:
    """What to go on from; None where nothing was learned yet, though something may be recorded."""
    recorded = not (settings.out / FILE).exists() and shard_files(folder)
    return Checkpoint.read(settings.out) if settings.resume and not recorded else None


def _learner(
    settings: TrainingSettings,
    draft: DraftModule,
    config: ModelConfig,
    target: Target,
    ids: Tensor | None,
    their_ids: Tensor | None,
    device: torch.device,
    *,
    halves: bool,
) -> Learner:
    embedding, output = target.matrices(device, halves=halves)
    vocabulary = DraftVocabulary.of(output, None if ids is None else ids.to(device))
    begin = settings.shape.begin
    if begin is None and config.fusion is None:
        draft.begin_embedding(projected(embedding, config.hidden_size))
    if config.fusion is None:
        output_rows = None if ids is None else draft.model.embed_tokens.weight[ids]
    else:
        output_rows = vocabulary.output.matrix.float() if config.fusion.own_head else None
    if output_rows is not None and ids is not None and their_ids is not None:
        draft.begin_output(moved_rows(output_rows, ids, draft.lm_head.weight, their_ids))
    elif output_rows is not None and begin is None:
        draft.begin_output(output_rows)
    draft.to(device)
    if config.fusion is None:
        return ModelLearner(draft, vocabulary)
    eagle3 = config.fusion.kind == "eagle3"
    weights = LossWeights(regression=0.0, labels=1.0) if eagle3 else LossWeights()
    steps = settings.steps or (5 if eagle3 else 2)
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


def load_weights(draft: DraftModule, folder: Path) -> Tensor | None:
    """Begin with the weights of a draft that is there.

    Returns:
        The tokens that it proposes, int64 [rows]; None: all of the vocabulary.

    Raises:
        UserFixable: it is none, or of another shape.
    """
    from engine.model.weights.safetensors_folder import SafetensorsFolder

    stored = SafetensorsFolder.open(folder)
    for name, parameter in draft.named_parameters():
        if name not in stored.names() or stored.shape(name) != tuple(parameter.shape):
            raise UserFixable(
                tr("The draft in {folder} has another shape.").format(folder=folder),
                tr("Give the shape that it has, or begin without it."),
                name,
            )
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(stored.float32(name)))
    if HEAD_IDS not in stored:
        return None
    return torch.from_numpy(stored.integers(HEAD_IDS).astype(np.int64))


def moved_rows(rows: Tensor, ids: Tensor, theirs: Tensor, their_ids: Tensor) -> Tensor:
    """Return `rows` with another draft's in their places, for tokens that both propose.

    Args:
        rows: [n, hidden], one per token of `ids`.
        ids, their_ids: int64, ascending.
        theirs: [m, hidden], one per token of `their_ids`.
    """
    place = torch.searchsorted(their_ids, ids).clamp(max=len(their_ids) - 1)
    both = their_ids[place] == ids
    return torch.where(both[:, None], theirs[place], rows)


def _another(folder: Path) -> UserFixable:
    return UserFixable(
        tr("The training in {folder} was begun with another model, other data or settings.").format(
            folder=folder
        ),
        tr("Give the same ones, or choose another folder."),
    )
