"""The models on this computer: use, rename, check, move, delete, forget, take over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget

from app.data_folder.exported_file import show_folder
from app.models.detail.installed_detail import InstalledDetail
from app.models.list.model import ModelRow
from app.models.list.view import RowsView
from app.models.list_tab import ListTab, says
from app.models.model_texts import kept_row
from app.models.services import ModelServices
from app.widgets.confirm import confirm
from app.widgets.file_dialog import file_dialog
from engine.hub.advice import DraftCandidate
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.language import number, sentences, tr
from engine.language.units import file_size


@dataclass(frozen=True, slots=True)
class Heading:
    """Stands above the entries of one kind."""

    title: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Offered:
    """A model that another program has."""

    model: KeptModel


_Entry = KeptModel | Offered | Heading


class InstalledTab(ListTab):
    """The list is read anew whenever the tab is opened."""

    used = Signal()
    """A model was chosen to answer."""

    def __init__(self, services: ModelServices, parent: QWidget) -> None:
        self._services = services
        self._filter = ""
        self.kept = InstalledDetail(parent)
        view = RowsView(tr("Models on this computer"), self._row, _key, parent)
        super().__init__(view, self.kept, parent)
        self._window = parent
        self._connect()

    def _connect(self) -> None:
        shelf, detail = self._services.shelf, self.kept
        self.view.chosen.connect(self._show_chosen)
        self.view.entered.connect(self._entered)
        shelf.changed.connect(self._show)
        shelf.doing_changed.connect(lambda: detail.show_doing(shelf.doing, shelf.share))
        self._services.advising.drafts_known.connect(self._drafts_known)
        self._services.models.bridge.status_changed.connect(lambda _status: self._used_changed())
        detail.use_asked.connect(self._use)
        detail.adopt_asked.connect(self._adopt)
        detail.show_asked.connect(lambda model: show_folder(model.path))
        detail.check_asked.connect(self._check)
        detail.move_asked.connect(self._ask_folder)
        detail.rename_asked.connect(self._ask_name)
        detail.delete_asked.connect(self._ask_delete)
        detail.forget_asked.connect(self._forget)
        detail.stop_asked.connect(shelf.stop)

    # -- what is shown ---------------------------------------------------------------------

    def opened(self) -> None:
        """Files come and go."""
        self._services.shelf.look()
        self._show()

    def filter(self, words: str) -> None:
        """Narrow the list down."""
        self._filter = words
        self._show()

    def _show(self) -> None:
        shelf = self._services.shelf
        entries = _entries(shelf.kept, shelf.elsewhere, self._filter)
        self.view.show_entries(entries, choose_first=True)
        if entries:
            self.say("")
        elif not shelf.looked:
            self.say(tr("Looking through your models\N{HORIZONTAL ELLIPSIS}"), busy=True)
        elif self._filter:
            self.say(tr("No matching model."))
        else:
            words = tr("There is no model here yet. Drag one onto this page, or download one.")
            self.say(words, tr("Show recommended models"))

    def _show_chosen(self, entry: object) -> None:
        model, offered = _model(entry)
        self.show_detail(shown=model is not None)
        if model is None:
            return
        self._show_model(model, offered=offered)
        if offered or model.head or model.problem:
            return
        candidates = self._services.advising.drafts_of_kept(model, self._services.shelf.kept)
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
            self._show_model(model, offered=offered)

    def _show_model(self, model: KeptModel, *, offered: bool) -> None:
        answers = self._services.models.running.possible
        self.kept.show_model(model, in_use=self._in_use(model), offered=offered, answers=answers)

    def _in_use(self, model: KeptModel) -> bool:
        """Return whether a model answers, or drafts for the one that does."""
        last = self._services.models.bridge.last_load
        if last is None:
            return False
        return model.path in (last.model, last.draft)

    def _row(self, entry: _Entry) -> ModelRow:
        if isinstance(entry, Heading):
            return ModelRow(entry.title, entry.about, heading=True)
        if isinstance(entry, Offered):
            return kept_row(entry.model, in_use=False)
        return kept_row(entry, in_use=self._in_use(entry))

    # -- what is done ----------------------------------------------------------------------

    def _entered(self, entry: object) -> None:
        model, offered = _model(entry)
        if model is not None and not offered and not model.problem and not self._in_use(model):
            self._use(model, self.kept.drafts.chosen)

    def _use(self, model: KeptModel, draft: DraftCandidate | None) -> None:
        models = self._services.models
        if not model.head:
            models.load(model.path, draft.path if draft is not None else None)
        elif models.running.possible:
            models.running.draft_with(model.path)
        else:
            return  # a draft has nobody to draft for
        self.used.emit()

    def _ask_name(self, model: KeptModel) -> None:
        dialog = QInputDialog(self._window)
        dialog.setWindowTitle(tr("Rename the model"))
        dialog.setLabelText(tr("Name (empty: the name of its file)"))
        dialog.setTextValue(model.name)
        dialog.textValueSelected.connect(lambda name: self.rename(model, name))
        dialog.finished.connect(dialog.deleteLater)
        dialog.open()

    def rename(self, model: KeptModel, name: str) -> None:
        """Call a model so in the whole window; its files keep their names."""
        self._services.models.rename(model.path, name)
        self._services.shelf.look()

    def _adopt(self, model: KeptModel, copy: bool) -> None:
        doing = tr("Copying {model}") if copy else tr("Looking at {model}")
        words = doing.format(model=model.name)
        after = tr("{model} was added.").format(model=model.name)
        self._services.shelf.adopt(model, words, after, copy=copy)

    def _check(self, model: KeptModel) -> None:
        self._services.shelf.check(model, tr("Checking {model}").format(model=model.name))

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
        after = tr("{model} was moved to {folder}.").format(model=model.name, folder=folder)
        self._services.shelf.move(model, folder, words, after)

    def _ask_delete(self, model: KeptModel) -> None:
        self._services.shelf.removable(model, lambda nbytes: self._confirm_delete(model, nbytes))

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
        self._services.models.forget(model.path)
        self._services.shelf.delete(
            model, words, tr("{model} was deleted.").format(model=model.name)
        )

    def _forget(self, model: KeptModel) -> None:
        words = tr("Removing {model} from the list").format(model=model.name)
        after = tr("{model} was removed from the list; its files are kept.")
        self._services.models.forget(model.path)
        self._services.shelf.forget(model, words, after.format(model=model.name))


def _entries(kept: Sequence[KeptModel], elsewhere: Sequence[KeptModel], words: str) -> list[_Entry]:
    """Return our models, then our drafts, then what other programs have."""
    own = [each for each in kept if says(words, each.name, each.family, each.kind)]
    known = {each.path for each in kept}
    offered = [
        Offered(each)
        for each in elsewhere
        if each.path not in known and says(words, each.name, each.family, each.kind)
    ]
    entries: list[_Entry] = [each for each in own if not each.head]
    drafts = [each for each in own if each.head]
    if drafts:
        about = tr("They speed up a model, and cannot answer alone.")
        entries += [Heading(tr("Drafts"), about), *drafts]
    if offered:
        about = tr("Models of other programs; Duotail can use them too.")
        entries += [Heading(tr("Found on this disk"), about), *offered]
    return entries


def _key(entry: _Entry) -> object:
    model, _ = _model(entry)
    return model.path if model is not None else cast("Heading", entry).title


def _model(entry: object) -> tuple[KeptModel | None, bool]:
    """The model of an entry, and whether it is only offered."""
    if isinstance(entry, Offered):
        return entry.model, True
    return (entry, False) if isinstance(entry, KeptModel) else (None, False)
