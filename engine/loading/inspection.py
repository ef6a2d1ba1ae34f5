"""The files that a `Load` command names, looked at before anything is planned or allocated.

So an unusable model costs nothing, and the one in memory can stay."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from engine.commands import DraftChoice, Load, Mode
from engine.errors import UserFixable
from engine.language import tr
from engine.loading.drafts import drafts_of, refuse_head
from engine.loading.inspected_model import InspectedModel
from engine.machine.facts import Machine
from engine.model.local_model import LocalModel
from engine.model.model_files import FilesState, own_files
from engine.model.other_family import OtherConfig
from engine.model.text.chat_template import ChatTemplate
from engine.model.text.tokenizer import Tokenizer
from engine.plan.facts import that_serves


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
        files = FilesState.of_files(model.path, own_files(model.path))
        if known is not None and known.files == files:
            return known
        return cls(model.tokenizer(), model.template(), files)


@dataclass(frozen=True, slots=True)
class Inspection:
    """The models of a load, their files looked at; not yet planned.

    Attributes:
        drafts: models that may draft: the one that was named, or those that were found.
        machine: where it may be loaded, without what this model cannot use.
    """

    command: Load
    target: InspectedModel
    drafts: tuple[InspectedModel, ...]
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
                refuse_head(target, command.draft)
            return cls(command, target, (), text, replace(machine, accelerators=()))
        drafts: tuple[InspectedModel, ...] = ()
        if not plain and command.draft is not DraftChoice.NONE:
            drafts = drafts_of(command.draft, target, text.tokenizer, memory)
        drafts = tuple(replace(draft, kv=command.kv) for draft in drafts)
        return cls(command, target, drafts, text, that_serves(machine, target.config))

    def changed_to(self, load: Load) -> Inspection:
        """Return what looking at the same files for another load would come to."""
        target, drafts = self.target, self.drafts
        if load.weights is not self.command.weights:
            target = replace(target, format=load.weights)
            drafts = tuple(draft.borrowing(load.weights) for draft in drafts)
        if load.draft is DraftChoice.NONE:
            drafts = ()
        target = replace(target, kv=load.kv)
        drafts = tuple(replace(draft, kv=load.kv) for draft in drafts)
        return replace(self, command=load, target=target, drafts=drafts)
