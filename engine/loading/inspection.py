"""The files that a `Load` command names, looked at before anything is planned or allocated.

So an unusable model costs nothing, and the one in memory can stay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

from engine.backend.cpu import choose_format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.shared import Lent
from engine.commands import DraftChoice, Load, Mode, WeightFormat
from engine.errors import NotPossible, UserFixable
from engine.hub.curated import starter_draft
from engine.language import tr
from engine.loading.inspected_model import InspectedModel
from engine.machine.facts import Machine
from engine.model.config import ModelConfig
from engine.model.heads.description import HeadDescription
from engine.model.heads.reduced import ReducedDraft
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState
from engine.model.other_family import OtherConfig
from engine.model.tensors import HEAD_IDS, borrowed_tensors, expected_tensors
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.model.text.vocabulary.same_tokens import fingerprint, same_tokens
from engine.model.weights.model_weights import ModelWeights
from engine.plan.footprint import KINDS


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
        text = ModelText.of(target.model, known)
        plain = command.mode is Mode.PLAIN
        if isinstance(target.config, OtherConfig):
            if isinstance(command.draft, Path) and not plain:
                _refuse_head(target, command.draft)
            return cls(command, target, None, text, replace(machine, accelerators=()))
        draft = None
        if not plain and command.draft is not DraftChoice.NONE:
            draft = _draft(command.draft, target, text.tokenizer, memory)
        return cls(command, target, draft, text, machine)

    def changed_to(self, load: Load) -> Inspection:
        """Return what looking at the same files for another load would come to."""
        target, draft = self.target, self.draft
        if load.weights is not self.command.weights:
            target = replace(target, format=load.weights)
            draft = None if draft is None else draft.borrowing(load.weights)
        if load.draft is DraftChoice.NONE:
            draft = None
        return replace(self, command=load, target=target, draft=draft)


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
    if isinstance(described, HeadDescription):
        config = described.for_target(target.config, model.name, target.model.name)
        return _dependent_draft(target, model, config)
    if isinstance(described, ReducedDraft):
        return _dependent_draft(target, model, described.config)
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
    if isinstance(model.config, HeadDescription):
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
    if isinstance(described, ReducedDraft):
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
