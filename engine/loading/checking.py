"""Whether what a `Load` command names can be loaded: files checked, formats chosen, planned.

Nothing large is allocated, so an unusable model costs nothing and the one in memory can stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from engine.backend.cpu import choose_format, native_is_built
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.errors import NotPossible, OutOfMemory, UserFixable
from engine.events import PlanSummary, WayOut
from engine.hub.pairs.curated import starter_draft
from engine.language import tr
from engine.loading.planning import UNKNOWN, asked, summarise
from engine.loading.reading import StoredWeights
from engine.loading.ways_out import Model, ways_out
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.model.config import Fusion, ModelConfig
from engine.model.heads.description import HeadDescription
from engine.model.heads.reduced import DraftOnly, ReducedDraft, alone
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState
from engine.model.other_family import OtherConfig
from engine.model.tensors import HEAD_IDS, borrowed_tensors, expected_tensors
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import fingerprint, same_tokens
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.safetensors_folder import SafetensorsFolder
from engine.plan.facts import ModelFacts
from engine.plan.footprint import (
    KINDS,
    Footprint,
    footprint,
    other_footprint,
    stored_footprint,
    weight_count,
)
from engine.plan.plan import Plan
from engine.plan.planner import Planning

_CLEARLY_LESS = 0.9
_SHARE_FOR_F32 = 0.8
"""Of the free memory: a model of another family that takes more is held in 16 bits."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A model whose files are known to be usable, nothing large in memory yet.

    Attributes:
        config: what is built; of a head, what it comes to with its target.
        format: how matrices are held, a head's own at least.
        lent: what a head borrows -> the target's name of it, and how the target holds it.
    """

    model: LocalModel
    config: ModelConfig | OtherConfig
    weights: StoredWeights
    format: WeightFormat
    lent: Mapping[str, Lent] = field(default_factory=dict)

    @property
    def fusion(self) -> Fusion | None:
        """Of a head that drafts from what its target computes."""
        return self.config.fusion if isinstance(self.config, ModelConfig) else None

    @property
    def facts(self) -> ModelFacts:
        """What the planner wants to know."""
        config = self.config
        other = config.family if isinstance(config, OtherConfig) else ""
        return ModelFacts(self.model.name, self._footprint, config.max_positions, other)

    @property
    def _footprint(self) -> Footprint:
        config, weights = self.config, self.weights
        if isinstance(config, OtherConfig):
            numbers = sum(prod(weights.shape(name)) for name in weights.names())
            return other_footprint(config, numbers, self.format)
        if self.format is WeightFormat.STORED:
            kinds = {name: weights.kind(name) for name in weights.names()}
            kinds |= {name: lent.kind for name, lent in self.lent.items()}
            return stored_footprint(config, kinds, self.model.kind)
        return footprint(config, self.format, {name: lent.kind for name, lent in self.lent.items()})


@dataclass(frozen=True, slots=True)
class ModelText:
    """What turns text into tokens and back; `files`: how the files were that it was read from."""

    tokenizer: Tokenizer
    template: ChatTemplate
    files: FilesState


@dataclass(frozen=True, slots=True)
class CheckedPair:
    """Target and draft, checked and planned.

    Attributes:
        plan: in words.
        placing: the same, for whoever builds it.
        planning: what other ceilings would give.
        machine: what it was planned for.
        read: what it was planned from.
    """

    command: Load
    target: Checked
    draft: Checked | None
    lookup: bool
    forced: bool
    text: ModelText
    plan: PlanSummary
    placing: Plan
    planning: Planning
    machine: Machine
    read: Read

    @property
    def facts(self) -> tuple[ModelFacts, ...]:
        """Of the models that take part."""
        return tuple(model.facts for model in (self.target, self.draft) if model is not None)


def check(
    command: Load, machine: Machine, speeds: Speeds = UNKNOWN, known: ModelText | None = None
) -> CheckedPair:
    """Read and check all files but the weights themselves, and plan.

    Args:
        command: what to load.
        machine: what it may be loaded on, memory as it is once the present model is gone.
        speeds: of that machine.
        known: the text of the present model, used again where it is the same.

    Raises:
        UserFixable: in words for the user.
    """
    try:
        return _check(command, machine, speeds, known)
    except OSError as error:  # a folder one may not look into, a drive that is gone
        raise UserFixable(
            tr("The model's files cannot be read."),
            tr("Check that the drive is connected and that you may read the folder."),
            str(error),
        ) from error


def _check(command: Load, machine: Machine, speeds: Speeds, known: ModelText | None) -> CheckedPair:
    read = Read.of(command, machine, known)
    planning, placing = read.planned(speeds)
    chosen = read.draft if placing.draft is not None else None
    return CheckedPair(
        command=command,
        target=read.target,
        draft=chosen,
        lookup=placing.lookup,
        forced=read.forced(command.mode),
        text=read.text,
        plan=read.summary(placing, speeds),
        placing=placing,
        planning=planning,
        machine=read.machine,
        read=read,
    )


@dataclass(frozen=True, slots=True)
class Read:
    """The files of a load, read and checked; not yet planned.

    Attributes:
        draft: the model that may draft; None where none may.
        machine: without what this model cannot use.
    """

    command: Load
    target: Checked
    draft: Checked | None
    text: ModelText
    machine: Machine

    @classmethod
    def of(cls, command: Load, machine: Machine, known: ModelText | None = None) -> Read:
        """Read what a command names. Raises as `check`."""
        memory = machine.host.memory_available
        target = _check_model(command.model, command.weights, memory)
        text = _text(target.model, known)
        wish = command.draft
        other = isinstance(target.config, OtherConfig)
        if other and isinstance(wish, Path) and command.mode is not Mode.PLAIN:
            _refuse_head(target, wish)
        draft = None
        if not (other or command.mode is Mode.PLAIN or wish is DraftChoice.NONE):
            draft = _draft_of(target, wish, memory)
            if draft is None and wish is DraftChoice.AUTO:
                draft = _starter_draft(target, text.tokenizer, memory)
        if draft is not None and draft.fusion is None:
            _check_vocabulary(target, text.tokenizer, draft)
        if other:
            machine = replace(machine, accelerators=())
        return cls(command, target, draft, text, machine)

    def forced(self, mode: Mode) -> bool:
        """Whether drafting was asked for by name."""
        wish = self.command.draft
        return mode not in (Mode.AUTO, Mode.PLAIN) or wish is not DraftChoice.AUTO

    def planning(self, mode: Mode, speeds: Speeds) -> Planning:
        """The question to the planner, for a mode that may be another than the command's.

        Raises:
            UserFixable: the wish cannot be met on this machine.
        """
        command = replace(self.command, mode=mode)
        drafting = not (mode is Mode.PLAIN or isinstance(self.target.config, OtherConfig))
        lookup = drafting and command.draft in (DraftChoice.AUTO, DraftChoice.LOOKUP)
        return asked(
            command,
            self.target.facts,
            [self.draft.facts] if self.draft is not None and drafting else [],
            self.machine,
            speeds,
            lookup=lookup,
            forced=self.forced(mode),
        )

    def planned(self, speeds: Speeds) -> tuple[Planning, Plan]:
        """The planner's answer.

        Raises:
            OutOfMemory: nothing fits; with what would.
            UserFixable: the wish cannot be met on this machine.
        """
        planning = self.planning(self.command.mode, speeds)
        try:
            return planning, planning.plan()
        except OutOfMemory as error:
            error.ways_out = self.ways_out(speeds)
            raise

    def ways_out(self, speeds: Speeds) -> tuple[WayOut, ...]:
        """Loads of the same files that fit where this one does not."""
        target, usable = self.target.facts, self.machine.usable
        model = Model(
            layers=len(target.footprint.blocks),
            longest=target.max_positions,
            formats=smaller_formats(self.target),
            device=usable[0].name if usable else "",
        )
        return ways_out(
            self.command,
            model,
            lambda load: self._instead(load).planning(load.mode, speeds).plan(),
        )

    def _instead(self, load: Load) -> Read:
        """What reading the same files for another load would come to."""
        target, draft = self.target, self.draft
        if load.weights is not self.command.weights:
            target = replace(target, format=load.weights)
            kind = KINDS[load.weights]
            if draft is not None:
                lent = {name: replace(each, kind=kind) for name, each in draft.lent.items()}
                draft = replace(draft, lent=lent)
        if load.draft is DraftChoice.NONE:
            draft = None
        return replace(self, command=load, target=target, draft=draft)

    def summary(self, plan: Plan, speeds: Speeds) -> PlanSummary:
        """A plan in words."""
        draft = self.draft.facts if self.draft is not None and plan.draft is not None else None
        summary = summarise(plan, self.target.facts, draft, self.machine)
        can_think = self.text.template.can_think
        return replace(summary, can_think=can_think, measured=speeds.measured)


def smaller_formats(target: Checked) -> list[WeightFormat]:
    """Formats in which its weights would take less, the largest first."""
    if isinstance(target.config, OtherConfig):
        return [WeightFormat.BF16] if target.format is WeightFormat.F32 else []
    if not native_is_built():
        return []
    most = target.facts.footprint.weight_bytes * _CLEARLY_LESS
    formats = (WeightFormat.Q8, WeightFormat.Q4)
    return [each for each in formats if footprint(target.config, each).weight_bytes <= most]


def _text(model: LocalModel, known: ModelText | None) -> ModelText:
    """Tokenizer and template, which need not be read again where the files are as they were."""
    files = FilesState.of(model.path)
    if known is not None and known.files == files:
        return known
    return ModelText(model.tokenizer(), model.template(), files)


def _check_model(path: Path, wish: WeightFormat, memory_available: int) -> Checked:
    model = LocalModel.inspect(path)
    if isinstance(model.config, OtherConfig):
        return _check_other(model, model.config, wish, memory_available)
    config, weights, fmt = own_model(model, wish)
    return Checked(model, config, weights, fmt)


def own_model(
    model: LocalModel, wish: WeightFormat
) -> tuple[ModelConfig, ModelWeights, WeightFormat]:
    """What Duotail's own decoder needs of a model, and the format that serves it.

    Raises:
        NotPossible: the model runs through transformers, or only drafts for another.
        Absent: the format needs the native backend, which is not built.
    """
    config = model.config
    if isinstance(config, OtherConfig):
        raise NotPossible(
            tr("Duotail has no decoder of its own for “{family}” models.").format(
                family=config.family
            ),
            tr("Choose a model of another family."),
        )
    if isinstance(config, DraftOnly):
        raise alone(model.name, config)
    quantised = model.gguf is not None or model.kind == "MXFP4"  # gpt-oss in safetensors
    fmt = choose_format(wish, weight_count(config), quantised=quantised)
    native = NATIVE_KINDS if fmt is WeightFormat.STORED else ()
    return config, model.own_weights(config, native), fmt


def _check_other(
    model: LocalModel, config: OtherConfig, wish: WeightFormat, memory_available: int
) -> Checked:
    """A model that transformers runs: all of it in floats."""
    if wish is WeightFormat.AUTO:
        whole = Checked(model, config, SafetensorsFolder.open(model.path), WeightFormat.F32)
        fits = whole.facts.footprint.weight_bytes <= memory_available * _SHARE_FOR_F32
        return whole if fits else replace(whole, format=WeightFormat.BF16)
    if wish not in (WeightFormat.F32, WeightFormat.BF16):
        raise NotPossible(
            tr(
                "{model} cannot be held in {wish}: it runs through the transformers library."
            ).format(model=model.name, wish=wish),
            tr("Choose the format auto, f32 or bf16."),
        )
    return Checked(model, config, SafetensorsFolder.open(model.path), wish)


def _draft_of(target: Checked, choice: Path | DraftChoice, memory_available: int) -> Checked | None:
    """The draft model or head that was chosen, or that belongs to the target."""
    path = choice if isinstance(choice, Path) else target.model.draft
    if path is None or choice is DraftChoice.LOOKUP:
        return None
    model = LocalModel.inspect(path)
    described = model.config
    if isinstance(described, HeadDescription):
        config = described.for_target(target.config, model.name, target.model.name)
        return _check_draft(target, model, config)
    if isinstance(described, ReducedDraft):
        return _check_draft(target, model, described.config)
    draft = _check_model(path, WeightFormat.AUTO, memory_available)
    if isinstance(draft.config, OtherConfig):
        raise NotPossible(
            tr(
                "{draft} cannot draft: Duotail has no decoder of its own for “{family}” models."
            ).format(draft=draft.model.name, family=draft.config.family),
            tr("Choose another draft, or the lookup draft."),
        )
    return draft


def _starter_draft(target: Checked, tokenizer: Tokenizer, memory_available: int) -> Checked | None:
    """The starter model, for a target without a draft of its own that speaks its tokens."""
    config = target.config
    path = starter_draft(config) if isinstance(config, ModelConfig) else None
    if path is None or not same_tokens(tokenizer, LocalModel.inspect(path).tokenizer()):
        return None
    return _check_model(path, WeightFormat.AUTO, memory_available)


def _refuse_head(target: Checked, path: Path) -> None:
    """Other drafts are done without where nothing can be drafted; a head says what it misses."""
    model = LocalModel.inspect(path)
    if isinstance(model.config, HeadDescription):
        model.config.for_target(target.config, model.name, target.model.name)


def _check_draft(target: Checked, model: LocalModel, config: ModelConfig) -> Checked:
    """A draft that is no model by itself, such as a feature head with its target's matrices.

    Args:
        target: what it drafts for.
        model: its folder.
        config: what it comes to with its target.

    Raises:
        NotPossible: it proposes tokens that the target does not have.
    """
    if not isinstance(target.config, ModelConfig) or not isinstance(target.weights, ModelWeights):
        raise TypeError("such drafts are for models with a decoder of our own")
    packed = model.gguf is not None
    shapes, borrowed = expected_tensors(config), borrowed_tensors(config)
    own = sum(prod(shape) for name, shape in shapes.items() if name not in borrowed)
    fmt = choose_format(WeightFormat.AUTO, own, quantised=packed)
    native = NATIVE_KINDS if fmt is WeightFormat.STORED else ()
    tied = target.config.tie_word_embeddings
    weights = model.draft_weights(config, target.weights, tied, native)
    held = KINDS.get(target.format)
    lent = {name: Lent(its, held or target.weights.kind(its)) for name, its in weights.lent.items()}
    if config.rows and weights.float32(HEAD_IDS).max() >= target.config.vocab_size:
        raise _other_vocabulary(target, model)
    return Checked(model, config, weights, fmt, lent)


def _check_vocabulary(target: Checked, tokenizer: Tokenizer, draft: Checked) -> None:
    """A stand-alone draft must speak the target's tokens."""
    described = draft.model.config
    if isinstance(described, ReducedDraft):
        same = described.vocabulary == fingerprint(tokenizer.vocabulary)
    else:
        same = same_tokens(tokenizer, draft.model.tokenizer())
    if same:
        return
    raise _other_vocabulary(target, draft.model)


def _other_vocabulary(target: Checked, draft: LocalModel) -> UserFixable:
    return NotPossible(
        tr("{draft} cannot draft for {target}: the two models have different vocabularies.").format(
            draft=draft.name, target=target.model.name
        ),
        tr("Choose a draft of the same model family, or the lookup draft."),
    )
