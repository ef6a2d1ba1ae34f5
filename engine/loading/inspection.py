"""The files that a `Load` command names, looked at before anything is planned or allocated.

So an unusable model costs nothing, and the one in memory can stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from engine.backend.cpu import choose_format, native_is_built
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.backend.webgpu.served import why_not_served
from engine.commands import DraftChoice, KvType, Load, Mode, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.hub.curated import starter_draft
from engine.language import tr
from engine.loading.streamed_weights import StoredWeights
from engine.machine.facts import Machine
from engine.model.config import Fusion, ModelConfig
from engine.model.heads.description import DraftOnly, alone
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

_CLEARLY_LESS = 0.9
_SHARE_FOR_F32 = 0.8
"""Share of the free memory; a model of another family that takes more is held in 16 bits."""


@dataclass(frozen=True, slots=True)
class InspectedModel:
    """A model whose files are known to be usable, nothing large in memory yet.

    Attributes:
        config: what is built; for a head, the config it has together with its target.
        format: how matrices are held, a head's own at least.
        lent: what a head borrows -> the target's name of it, and how the target holds it.
        kv: the type that was asked for keys and values; `facts` say which one they have.
    """

    model: LocalModel
    config: ModelConfig | OtherConfig
    weights: StoredWeights
    format: WeightFormat
    lent: Mapping[str, Lent] = field(default_factory=dict)
    kv: KvType = KvType.F16

    @classmethod
    def of(cls, path: Path, wish: WeightFormat, memory_available: int) -> InspectedModel:
        """Look at a model that can run by itself.

        Args:
            path: a folder or a GGUF file.
            wish: the format that was asked for.
            memory_available: bytes of the host that are free.

        Raises:
            UserFixable: it cannot be used, or not in this format.
        """
        model = LocalModel.inspect(path)
        if isinstance(model.config, OtherConfig):
            return _of_other_family(model, model.config, wish, memory_available)
        return cls(model, *own_model(model, wish))

    @property
    def fusion(self) -> Fusion | None:
        """The features a head takes from its target; None for every other model."""
        return self.config.fusion if isinstance(self.config, ModelConfig) else None

    @property
    def facts(self) -> ModelFacts:
        """The planner's view of it."""
        config = self.config
        other = config.family if isinstance(config, OtherConfig) else ""
        return ModelFacts(self.model.name, self._footprint, config.max_positions, other)

    @property
    def smaller_formats(self) -> list[WeightFormat]:
        """Formats in which its weights would take clearly less, the largest first."""
        if isinstance(self.config, OtherConfig):
            return [WeightFormat.BF16] if self.format is WeightFormat.F32 else []
        if not native_is_built():
            return []
        most = self.facts.footprint.weight_bytes * _CLEARLY_LESS
        formats = (WeightFormat.Q8, WeightFormat.Q4)
        return [each for each in formats if footprint(self.config, each).weight_bytes <= most]

    @property
    def has_kv_choice(self) -> bool:
        """Tell whether its keys and values can be in 8 bits on the CPU."""
        return isinstance(self.config, ModelConfig) and self.format is not WeightFormat.F32

    def borrowing(self, held: WeightFormat) -> InspectedModel:
        """Return this head as it would be if its target held its weights in another format."""
        kind = KINDS[held]
        return replace(
            self, lent={name: replace(each, kind=kind) for name, each in self.lent.items()}
        )

    @property
    def _footprint(self) -> Footprint:
        config, weights = self.config, self.weights
        if isinstance(config, OtherConfig):
            numbers = sum(prod(weights.shape(name)) for name in weights.names())
            return other_footprint(config, numbers, self.format)
        lent = {name: each.kind for name, each in self.lent.items()}
        if self.format is WeightFormat.STORED:
            kinds = {name: weights.kind(name) for name in weights.names()}
            return stored_footprint(config, kinds | lent, self.model.kind, self.kv)
        return footprint(config, self.format, lent, self.kv)


def own_model(
    model: LocalModel, wish: WeightFormat
) -> tuple[ModelConfig, ModelWeights, WeightFormat]:
    """Return what Duotail's own decoder needs of a model, and the format that serves it.

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


def _of_other_family(
    model: LocalModel, config: OtherConfig, wish: WeightFormat, memory_available: int
) -> InspectedModel:
    """A model that the transformers library runs: all of it in floats."""
    if wish is WeightFormat.AUTO:
        whole = InspectedModel(model, config, SafetensorsFolder.open(model.path), WeightFormat.F32)
        fits = whole.facts.footprint.weight_bytes <= memory_available * _SHARE_FOR_F32
        return whole if fits else replace(whole, format=WeightFormat.BF16)
    if wish not in (WeightFormat.F32, WeightFormat.BF16):
        raise NotPossible(
            tr(
                "{model} cannot be held in {wish}: it runs through the transformers library."
            ).format(model=model.name, wish=wish),
            tr("Choose the format auto, f32 or bf16."),
        )
    return InspectedModel(model, config, SafetensorsFolder.open(model.path), wish)


@dataclass(frozen=True, slots=True)
class ModelText:
    """Tokenizer and chat template of a model: text to tokens and back.

    Attributes:
        files: the model's files as they were when this was read from them.
    """

    tokenizer: Tokenizer
    template: ChatTemplate
    files: FilesState

    @classmethod
    def of(cls, model: LocalModel, known: ModelText | None) -> ModelText:
        """Read it, unless `known` comes from the same files as they are now."""
        files = FilesState.of(model.path)
        if known is not None and known.files == files:
            return known
        return cls(model.tokenizer(), model.template(), files)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The models of a load, their files looked at; not yet planned.

    Attributes:
        draft: the model that may draft; None where none may.
        machine: where it may be loaded, without what this model cannot use.
    """

    command: Load
    target: InspectedModel
    draft: InspectedModel | None
    text: ModelText
    machine: Machine

    @classmethod
    def of(cls, command: Load, machine: Machine, known: ModelText | None = None) -> Inspection:
        """Read and check all files but the weights themselves.

        Args:
            command: what to load.
            machine: what it may be loaded on, memory as it is once the present model is gone.
            known: the text of the present model, used again where it is the same.

        Raises:
            UserFixable: the files cannot be used.
        """
        try:
            return cls._of(command, machine, known)
        except OSError as error:  # a folder one may not look into, a drive that is gone
            raise UserFixable(
                tr("The model's files cannot be read."),
                tr("Check that the drive is connected and that you may read the folder."),
                str(error),
            ) from error

    @classmethod
    def _of(cls, command: Load, machine: Machine, known: ModelText | None) -> Inspection:
        memory = machine.host.memory_available
        target = InspectedModel.of(command.model, command.weights, memory)
        target = replace(target, kv=command.kv)
        text = ModelText.of(target.model, known)
        plain = command.mode is Mode.PLAIN
        if isinstance(target.config, OtherConfig):
            if isinstance(command.draft, Path) and not plain:
                _refuse_head(target, command.draft)
            return cls(command, target, None, text, replace(machine, accelerators=()))
        draft = None
        if not plain and command.draft is not DraftChoice.NONE:
            draft = _draft(command.draft, target, text.tokenizer, memory)
        if draft is not None:
            draft = replace(draft, kv=command.kv)
        models = [target] if draft is None else [target, draft]
        return cls(command, target, draft, text, _that_serves(machine, models))

    def changed_to(self, load: Load) -> Inspection:
        """Return what looking at the same files for another load would come to."""
        target, draft = self.target, self.draft
        if load.weights is not self.command.weights:
            target = replace(target, format=load.weights)
            draft = None if draft is None else draft.borrowing(load.weights)
        if load.draft is DraftChoice.NONE:
            draft = None
        target = replace(target, kv=load.kv)
        draft = None if draft is None else replace(draft, kv=load.kv)
        return replace(self, command=load, target=target, draft=draft)


def _that_serves(machine: Machine, models: Sequence[InspectedModel]) -> Machine:
    """Return the machine, its WebGPU devices unusable where they cannot run these models."""
    configs = [model.config for model in models if isinstance(model.config, ModelConfig)]
    reason = next(filter(None, map(why_not_served, configs)), "")
    return replace(
        machine,
        accelerators=tuple(
            replace(found, unusable=found.unusable or reason) if found.webgpu else found
            for found in machine.accelerators
        ),
    )


def _draft(
    choice: Path | DraftChoice, target: InspectedModel, tokenizer: Tokenizer, memory_available: int
) -> InspectedModel | None:
    """The draft that was chosen, or belongs to the target, or else the starter model."""
    path = choice if isinstance(choice, Path) else target.model.draft
    if choice is DraftChoice.LOOKUP:
        return None
    if path is None:
        return _starter_draft(target, tokenizer, memory_available)
    draft = _named_draft(path, target, memory_available)
    if draft.fusion is None:
        _check_vocabulary(target, tokenizer, draft)
    return draft


def _named_draft(path: Path, target: InspectedModel, memory_available: int) -> InspectedModel:
    """The draft model or head in a folder or file."""
    model = LocalModel.inspect(path)
    described = model.config
    if isinstance(described, DraftOnly):
        config = described.for_target(target.config, model.name, target.model.name)
        return _dependent_draft(target, model, config)
    draft = InspectedModel.of(path, WeightFormat.AUTO, memory_available)
    if isinstance(draft.config, OtherConfig):
        raise NotPossible(
            tr(
                "{draft} cannot draft: Duotail has no decoder of its own for “{family}” models."
            ).format(draft=draft.model.name, family=draft.config.family),
            tr("Choose another draft, or the lookup draft."),
        )
    return draft


def _starter_draft(
    target: InspectedModel, tokenizer: Tokenizer, memory_available: int
) -> InspectedModel | None:
    """The starter model, for a target without a draft of its own that speaks its tokens."""
    config = target.config
    path = starter_draft(config) if isinstance(config, ModelConfig) else None
    if path is None or not same_tokens(tokenizer, LocalModel.inspect(path).tokenizer()):
        return None
    return InspectedModel.of(path, WeightFormat.AUTO, memory_available)


def _refuse_head(target: InspectedModel, path: Path) -> None:
    """Raise where a head was named: it says what it misses. Other drafts are just left out."""
    model = LocalModel.inspect(path)
    if isinstance(model.config, DraftOnly):
        model.config.for_target(target.config, model.name, target.model.name)


def _dependent_draft(
    target: InspectedModel, model: LocalModel, config: ModelConfig
) -> InspectedModel:
    """A draft that is no model by itself, such as a feature head with its target's matrices.

    Args:
        target: what it drafts for.
        model: its folder.
        config: the one it has together with its target.

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
    return InspectedModel(model, config, weights, fmt, lent)


def _check_vocabulary(target: InspectedModel, tokenizer: Tokenizer, draft: InspectedModel) -> None:
    """Raise unless a draft without fusion has the target's tokens."""
    described = draft.model.config
    if isinstance(described, DraftOnly):
        same = described.vocabulary == fingerprint(tokenizer.vocabulary)
    else:
        same = same_tokens(tokenizer, draft.model.tokenizer())
    if not same:
        raise _other_vocabulary(target, draft.model)


def _other_vocabulary(target: InspectedModel, draft: LocalModel) -> UserFixable:
    return NotPossible(
        tr("{draft} cannot draft for {target}: the two models have different vocabularies.").format(
            draft=draft.name, target=target.model.name
        ),
        tr("Choose a draft of the same model family, or the lookup draft."),
    )
