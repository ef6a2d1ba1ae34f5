"""Actions on a model on this computer, with the questions that come before."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtWidgets import QInputDialog, QWidget

from app.models.services import ModelServices
from app.widgets.confirm import confirm
from app.widgets.file_dialog import ask_for_path
from engine.commands import DraftChoice
from engine.hub.advice import DraftCandidate
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.language import number, sentences, tr
from engine.language.units import file_size


class ModelActions:
    """Use, add, rename, check, move, delete, forget.

    Args:
        services: have the models.
        window: the parent of dialogs.
        used: called when a model was chosen to answer.
    """

    def __init__(
        self, services: ModelServices, window: QWidget, used: Callable[[], object]
    ) -> None:
        self._models, self._shelf = services.models, services.shelf
        self._window, self._used = window, used

    def use(self, model: KeptModel, draft: DraftCandidate | None) -> None:
        """Load a model with a draft, or have a draft head draft for the present model."""
        if not model.head:
            self._models.load(model.path, draft.path if draft is not None else None)
        elif self._models.running.possible:
            self._models.running.draft_with(model.path)
        else:
            return  # a draft has nobody to draft for
        self._used()

    def draft_with(self, draft: DraftCandidate | None) -> None:
        """Have another draft work for the model that answers; None: none."""
        if draft is None:
            self._models.running.draft_with(DraftChoice.NONE)
        elif draft.path is not None:
            self._models.running.draft_with(draft.path)

    def adopt(self, model: KeptModel | Path, *, copy: bool) -> None:
        """Have a model listed, where it lies or as a copy."""
        doing = tr("Copying {model}") if copy else tr("Inspecting {model}")
        after = tr("{model} was added.")
        words, done = (text.format(model=model.name) for text in (doing, after))
        self._shelf.work(
            words, lambda shelf, doing: shelf.adopt(model, copy=copy, doing=doing), done
        )

    def check(self, model: KeptModel) -> None:
        """Read all of its files."""
        words = tr("Checking {model}").format(model=model.name)
        self._shelf.work(words, lambda shelf, doing: shelf.check(model, doing))

    def forget(self, model: KeptModel) -> None:
        """Take it off the list; its files stay."""
        words = tr("Removing {model} from the list").format(model=model.name)
        after = tr("{model} was removed from the list; its files are kept.")
        self._models.forget(model.path)
        self._shelf.work(
            words, lambda shelf, _doing: shelf.forget(model), after.format(model=model.name)
        )

    def ask_name(self, model: KeptModel) -> None:
        """Let the user give it another name."""
        dialog = QInputDialog(self._window)
        dialog.setWindowTitle(tr("Rename the model"))
        dialog.setLabelText(tr("Name (empty: the name of its file)"))
        dialog.setTextValue(model.name)
        dialog.textValueSelected.connect(lambda name: self.rename(model, name))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def rename(self, model: KeptModel, name: str) -> None:
        """Call a model so in the whole window; its files keep their names."""
        self._models.rename(model.path, name)
        self._shelf.look()

    def ask_folder(self, model: KeptModel) -> None:
        """Let the user choose where to move it."""
        title = tr("Move the model to")
        ask_for_path(self._window, title, lambda folder: self.move(model, folder), folder=True)

    def move(self, model: KeptModel, folder: Path) -> None:
        """Put a model's files into another folder."""
        words = tr("Moving {model}").format(model=model.name)
        after = tr("{model} was moved to {folder}.").format(model=model.name, folder=folder)
        self._shelf.work(words, lambda shelf, doing: shelf.move(model, folder, doing), after)

    def ask_delete(self, model: KeptModel) -> None:
        """Delete it for good, once the user has seen what goes."""
        self._shelf.removable(model, lambda nbytes: self._confirm_delete(model, nbytes))

    def _confirm_delete(self, model: KeptModel, nbytes: int) -> None:
        exact = tr("{n} bytes ({size}) are deleted from this disk.")
        remark = sentences(
            str(model.path) + "\n" + exact.format(n=number(nbytes), size=file_size(nbytes)),
            tr("This cannot be undone.")
            if model.origin is not ModelOrigin.DOWNLOADED
            else tr("It can be downloaded again."),
        )
        confirm(
            self._window,
            tr("Delete {model}?").format(model=model.name),
            remark,
            tr("Delete"),
            lambda: self._delete(model),
        )

    def _delete(self, model: KeptModel) -> None:
        words = tr("Deleting {model}").format(model=model.name)
        after = tr("{model} was deleted.").format(model=model.name)
        self._models.forget(model.path)
        self._shelf.work(words, lambda shelf, _doing: shelf.delete(model), after)
