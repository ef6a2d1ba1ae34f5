"""One training: record the target's states, train on them, write the draft's folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import rmtree

import torch
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.model.config import ModelConfig
from engine.model.json_object import JsonObject
from engine.model.tensors import HEAD_IDS
from engine.model.text.shortlist import shortlist
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import fingerprint
from engine.train.answers import given_answers, own_answers
from engine.train.batches import Batch, Batches, BatchPlace
from engine.train.checkpoint import FILE, Checkpoint, TrainingProgress
from engine.train.conversations import ShuffledExamples, SourceFile, find_sources
from engine.train.draft_folder import describe_draft, draft_config, write_draft
from engine.train.initial_weights import init_from_target, init_other_rows, load_weights
from engine.train.learner import DraftVocabulary, Learner, LossWeights
from engine.train.least_squares import fit_linear_fusion
from engine.train.modules import DraftModule
from engine.train.packed_draft import write_packed
from engine.train.recording import (
    Recording,
    RecordingReport,
    RecordingWriter,
    record,
    shard_files,
)
from engine.train.settings import DraftKind, TrainingSettings
from engine.train.targets import Target, TrainingDevice, open_target
from engine.train.trainer import Paused, Trainer, TrainingReport

_RECORDING = "recording"
_LONGEST = 1024
"""Tokens of a sequence unless told."""


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


@dataclass(frozen=True, slots=True)
class _Job:
    """A training whose target is open.

    Attributes:
        described: the draft's config.json.
        config: of the draft.
        longest: tokens after which sequences are cut.
        folder: of the recording.
    """

    settings: TrainingSettings
    sources: Sequence[SourceFile]
    target: Target
    described: JsonObject
    config: ModelConfig
    longest: int
    folder: Path

    @classmethod
    def of(cls, settings: TrainingSettings, sources: Sequence[SourceFile], target: Target) -> _Job:
        """Derive it from the settings.

        Raises:
            UserFixable: the target cannot have such a draft, or is not read that far.
        """
        most = target.config.max_positions
        if settings.longest is not None and settings.longest > most:
            raise UserFixable(
                tr(
                    "Sequences of {wanted} tokens are longer than the model's context of {most}."
                ).format(wanted=settings.longest, most=most),
                tr("Choose at most {most}.").format(most=most),
            )
        tokens = fingerprint(target.tokenizer.vocabulary)
        described = describe_draft(settings.shape, target.config, target.name, tokens)
        return cls(
            settings,
            sources,
            target,
            described,
            draft_config(described, target.config, borrows=settings.shape.borrows),
            min(settings.longest or _LONGEST, most),
            settings.recording or settings.out / _RECORDING,
        )

    @property
    def taps(self) -> tuple[int, ...]:
        """Blocks of the target whose outputs the draft takes."""
        return self.config.fusion.taps if self.config.fusion else ()

    @property
    def identity(self) -> str:
        """Text that is equal where a checkpoint can be resumed; end and rates may differ."""
        settings = self.settings
        data = [f"{source.path}:{source.size}" for source in self.sources]
        muon = bool(settings.schedule.muon)
        numbers = settings.batch, self.longest, settings.seed, settings.noise, settings.steps, muon
        parts = self.target.identity, self.config, " ".join(data), f"{numbers} {settings.recorded}"
        return " | ".join(map(str, parts))

    @property
    def recording_identity(self) -> str:
        """Text that is equal where a recording can be used.

        All drafts whose taps it holds can be trained from one recording, whatever else differs.
        """
        settings = self.settings
        data = [f"{source.path.name}:{source.size}" for source in self.sources]
        how = f"own {settings.longest_answer}" if settings.own_answers else "given"
        made = f"{how} {self.longest} {settings.seed}"
        return " | ".join((self.target.identity, " ".join(data), made))


def train(
    settings: TrainingSettings,
    tell: Callable[[TrainingReport], None],
    stopped: Callable[[], bool],
    tell_recording: Callable[[RecordingReport], None] = lambda _report: None,
) -> Result:
    """Record the target's hidden states, train a draft on them, and write its folder.

    Args:
        settings: of the training.
        tell, tell_recording: told about once a second.
        stopped: asked after every step, and about once a second of a recording.

    Raises:
        Paused: `stopped` said so.
        UserFixable: something is wrong with the target, the data, the folder or the settings.
    """
    device = TrainingDevice.choose(settings.device, settings.halves)
    if device.device.type == "cpu":
        torch.set_num_threads(settings.threads or torch.get_num_threads())
    _check_folder(settings)
    sources = find_sources(list(settings.data))
    examples = ShuffledExamples(sources, settings.seed)
    place = torch.device("cpu") if settings.own_answers else device.device
    with open_target(
        settings.model, settings.format, place, settings.threads, settings.longest or _LONGEST
    ) as target:
        job = _Job.of(settings, sources, target)
        begun = _begun(job)
        torch.manual_seed(settings.seed)
        draft, their_ids = DraftModule(job.config), None
        if settings.shape.begin is not None:
            their_ids = load_weights(draft, settings.shape.begin)
        with _created(settings.out):
            _record(job, examples, tell_recording, stopped)
            with Recording(job.folder, job.recording_identity, job.taps) as recording:
                most = max(settings.batch, job.longest)
                batches = Batches(recording, len(job.taps), most, settings.seed)
                ids, covered = _proposed(recording, job.config, target.tokenizer)
                first = batches.from_place(BatchPlace()) if begun is None else None
                learner = _learner(job, draft, ids, their_ids, device, first)
                held_out = batches.held_out(settings.held_out)
                trainer = Trainer(settings, learner, held_out, device, job.identity, begun)
                trainer.run(batches.from_place(trainer.progress.place), tell, stopped)
                acceptance = trainer.acceptance_length()
            parameters = _write(job, draft, ids)
    (settings.out / FILE).unlink(missing_ok=True)
    if settings.recording is None:
        rmtree(job.folder, ignore_errors=True)
    return Result(settings.out, trainer.progress, acceptance, parameters, examples.skipped, covered)


def _check_folder(settings: TrainingSettings) -> None:
    """Refuse to overwrite what is there already."""
    out = settings.out
    if (out / "config.json").exists():
        raise UserFixable(
            tr("{folder} holds a model already.").format(folder=out),
            tr("Choose another folder, or delete this one."),
        )
    if not settings.resume and (out / FILE).exists():
        raise UserFixable(
            tr("{folder} holds an unfinished training.").format(folder=out),
            tr("Continue it with --resume, or choose another folder."),
        )


def _begun(job: _Job) -> Checkpoint | None:
    """Read what to resume; None where nothing was trained yet, though something may be recorded."""
    out = job.settings.out
    recorded = not (out / FILE).exists() and shard_files(job.folder)
    return Checkpoint.read(out, job.identity) if job.settings.resume and not recorded else None


@contextmanager
def _created(folder: Path) -> Iterator[None]:
    """Create a folder; where the training leaves nothing in it, it is deleted again."""
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


def _record(
    job: _Job,
    examples: ShuffledExamples,
    tell: Callable[[RecordingReport], None],
    stopped: Callable[[], bool],
) -> None:
    """Record the tokens that are missing."""

    def told(report: RecordingReport) -> None:
        tell(report)
        if stopped():
            raise Paused(TrainingProgress())

    settings = job.settings
    writer = RecordingWriter(job.folder, job.recording_identity, job.taps)
    if settings.own_answers:
        sequences = own_answers(
            job.target,
            examples,
            writer.indices,
            taps=job.taps,
            longest=job.longest,
            longest_answer=settings.longest_answer,
            seed=settings.seed,
        )
    else:
        sequences = given_answers(
            job.target, examples, writer.indices, taps=job.taps, longest=job.longest
        )
    record(sequences, writer, settings.recorded, told)


def _proposed(
    recording: Recording, config: ModelConfig, tokenizer: Tokenizer
) -> tuple[Tensor | None, float]:
    """Choose the tokens that the draft proposes, and their share of the answers; None: all."""
    if config.rows is None:
        return None, 1.0
    usual = shortlist(tokenizer, config.rows)
    return recording.frequent_tokens(config.rows, config.vocab_size, usual)


def _learner(
    job: _Job,
    draft: DraftModule,
    ids: Tensor | None,
    their_ids: Tensor | None,
    device: TrainingDevice,
    batches: Iterator[Batch] | None,
) -> Learner:
    """Finish the draft's first weights, and move it to the device.

    Args:
        draft: with the weights of another draft, where it begins with one.
        ids: int64 [rows] that it can propose; None: all.
        their_ids: what the other draft could propose.
        batches: that first weights may be computed from; None: a checkpoint has the weights.
    """
    settings, target = job.settings, job.target
    embedding, matrix = target.matrices(device)
    moved = None if ids is None else ids.to(device.device)
    vocabulary = DraftVocabulary(matrix, moved, target.config.logit_softcap)
    if settings.shape.begin is None:
        init_from_target(draft, embedding, vocabulary)
        if settings.shape.kind is DraftKind.EAGLE and batches is not None:
            fit_linear_fusion(draft, batches, embedding)
    elif their_ids is not None:
        init_other_rows(draft, their_ids, vocabulary)
    draft.to(device.device)
    eagle3 = job.config.fusion is not None and job.config.fusion.kind == "eagle3"
    weights = LossWeights(regression=0.0) if eagle3 else LossWeights()
    steps = settings.steps or (5 if eagle3 else 2)
    return Learner(draft, embedding, vocabulary, weights, steps, settings.noise)


def _write(job: _Job, draft: DraftModule, ids: Tensor | None) -> int:
    """Write the draft's folder; returns how many numbers were trained."""
    weights = {name: one.detach().cpu() for name, one in draft.named_parameters()}
    parameters = sum(weight.numel() for weight in weights.values())
    if ids is not None:
        weights[HEAD_IDS] = ids
    name = f"{job.target.name} {job.settings.shape.kind}-{job.config.num_layers}"
    out, kind = job.settings.out, job.settings.packed
    write_draft(out, name, job.described, weights, job.target.path)
    if kind is not None:
        write_packed(out, out.with_name(f"{out.name}-{kind}"), kind)
    return parameters
