"""The models on this computer: use, look at, check, move, delete, forget, take over."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.data_folder.exported_file import show_folder
from app.models.desks import Desks
from app.models.detail.kept_detail import KeptDetail
from app.models.list.row import LibraryRow
from app.models.list.view import RowsView
from app.models.model_texts import kept_row
from app.models.part import ListPart
from app.models.parts import Heading, Offered, on_disk
from app.widgets.confirm import confirm
from app.widgets.file_dialog import file_dialog
from engine.hub.advice import DraftCandidate
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.language import number, sentences, tr
from engine.language.units import file_size

_Entry = KeptModel | Offered | Heading


class OnDiskPart(ListPart):
    """The list is read anew whenever the part is opened."""

    used = Signal()
    """A model was chosen to answer."""

    def __init__(self, desks: Desks, parent: QWidget) -> None:
        self._desks = desks
        self._filter = ""
        self.kept = KeptDetail(parent)
        view = RowsView(tr("Models on this computer"), self._row, _key, parent)
        super().__init__(view, self.kept, parent)
        self._window = parent
        self._connect()

    def _connect(self) -> None:
        shelf, detail = self._desks.shelf, self.kept
        self.view.chosen.connect(self._show_chosen)
        self.view.entered.connect(self._entered)
        shelf.changed.connect(self._show)
        shelf.doing_changed.connect(lambda: detail.show_doing(shelf.doing, shelf.share))
        self._desks.advising.drafts_known.connect(self._drafts_known)
        self._desks.models.bridge.status_changed.connect(lambda _status: self._used_changed())
        detail.use_asked.connect(self._use)
        detail.adopt_asked.connect(self._adopt)
        detail.show_asked.connect(lambda model: show_folder(model.path))
        detail.check_asked.connect(self._check)
        detail.move_asked.connect(self._ask_folder)
        detail.delete_asked.connect(self._ask_delete)
        detail.forget_asked.connect(self._forget)
        detail.stop_asked.connect(shelf.stop)

    # -- what is shown ---------------------------------------------------------------------

    def opened(self) -> None:
        """Files come and go."""
        self._desks.shelf.look()
        self._show()

    def filter(self, words: str) -> None:
        """Narrow the list down."""
        self._filter = words
        self._show()

    def _show(self) -> None:
        shelf = self._desks.shelf
        entries = on_disk(shelf.kept, shelf.elsewhere, self._filter)
        self.view.show_entries(entries, choose_first=True)
        if entries:
            self.say("")
        elif not shelf.looked:
            self.say(tr("Looking through your models\N{HORIZONTAL ELLIPSIS}"), busy=True)
        elif self._filter:
            self.say(tr("No model here is called that."))
        else:
            words = tr("There is no model here yet. Drag one onto this page, or download one.")
            self.say(words, tr("What suits this computer"))

    def _show_chosen(self, entry: object) -> None:
        model, offered = _model(entry)
        self.show_detail(shown=model is not None)
        if model is None:
            return
        self.kept.show_model(model, in_use=self._in_use(model), offered=offered)
        if offered or model.head or model.problem:
            return
        candidates = self._desks.advising.drafts_of_kept(model, self._desks.shelf.kept)
        if candidates is not None:
            self.kept.show_drafts(candidates)

    def _drafts_known(self, whose: object) -> None:
        model = self.kept.model
        if model is not None and whose == model.path:
            self._show_chosen(self.view.current)

    def _used_changed(self) -> None:
        """Renew the badge and the actions, as another model answers."""
        self.view.rows.say_anew()
        model, offered = _model(self.view.current)
        if model is not None:
            self.kept.show_model(model, in_use=self._in_use(model), offered=offered)

    def _in_use(self, model: KeptModel) -> bool:
        """Return whether a model answers, or drafts for the one that does."""
        last = self._desks.models.bridge.last_load
        if last is None:
            return False
        return model.path in (last.model, last.draft)

    def _row(self, entry: _Entry) -> LibraryRow:
        if isinstance(entry, Heading):
            return LibraryRow(entry.title, entry.about, heading=True)
        if isinstance(entry, Offered):
            return kept_row(entry.model, in_use=False)
        return kept_row(entry, in_use=self._in_use(entry))

    # -- what is done ----------------------------------------------------------------------

    def _entered(self, entry: object) -> None:
        model, offered = _model(entry)
        if model is not None and not offered and not model.problem and not self._in_use(model):
            self._use(model, self.kept.drafts.chosen)

    def _use(self, model: KeptModel, draft: DraftCandidate | None) -> None:
        self._desks.models.load_with_draft(model.path, draft.path if draft is not None else None)
        self.used.emit()

    def _adopt(self, model: KeptModel, copy: bool) -> None:
        doing = tr("Copying {model}") if copy else tr("Looking at {model}")
        words = doing.format(model=model.name)
        after = tr("{model} is listed now.").format(model=model.name)
        self._desks.shelf.adopt(model, words, after, copy=copy)

    def _check(self, model: KeptModel) -> None:
        self._desks.shelf.check(model, tr("Checking {model}").format(model=model.name))

    def _ask_folder(self, model: KeptModel) -> None:
        dialog = file_dialog(self._window, tr("Move the model to"))
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.fileSelected.connect(lambda name: self.move(model, Path(name)))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def move(self, model: KeptModel, folder: Path) -> None:
        """Put a model's files into another folder."""
        words = tr("Moving {model}").format(model=model.name)
        after = tr("{model} is in {folder} now.").format(model=model.name, folder=folder)
        self._desks.shelf.move(model, folder, words, after)

    def _ask_delete(self, model: KeptModel) -> None:
        self._desks.shelf.removable(model, lambda nbytes: self._confirm_delete(model, nbytes))

    def _confirm_delete(self, model: KeptModel, nbytes: int) -> None:
        exact = tr("{n} bytes ({size}) are deleted from this disk.")
        remark = sentences(
            exact.format(n=number(nbytes), size=file_size(nbytes)),
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
        self._desks.models.forget(model.path)
        self._desks.shelf.delete(model, words, tr("{model} is deleted.").format(model=model.name))

    def _forget(self, model: KeptModel) -> None:
        words = tr("Forgetting {model}").format(model=model.name)
        after = tr("{model} is not listed any more; its files are where they were.")
        self._desks.models.forget(model.path)
        self._desks.shelf.forget(model, words, after.format(model=model.name))


def _key(entry: _Entry) -> object:
    model, _ = _model(entry)
    return model.path if model is not None else cast("Heading", entry).title


def _model(entry: object) -> tuple[KeptModel | None, bool]:
    """The model of an entry, and whether it is only offered."""
    if isinstance(entry, Offered):
        return entry.model, True
    return (entry, False) if isinstance(entry, KeptModel) else (None, False)
