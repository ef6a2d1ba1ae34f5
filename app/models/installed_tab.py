"""The models on this computer, the drafts, and what other programs have."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QPushButton, QWidget

from app.data_folder.exported_file import show_folder
from app.models.detail.installed_detail import InstalledDetail
from app.models.list_tab import EmptyTexts, ListTab
from app.models.model_actions import ModelActions
from app.models.model_texts import kept_row
from app.models.row_model import ModelRow
from app.models.rows_view import RowsView
from app.models.services import ModelServices
from engine.commands import DraftChoice
from engine.hub.shelf.kept_model import KeptModel
from engine.language import tr


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


class InstalledTab(ListTab[_Entry]):
    """The list is read anew whenever the tab is opened.

    Args:
        services: have the models.
        actions: what can be done with one.
        parent: the page.
    """

    def __init__(self, services: ModelServices, actions: ModelActions, parent: QWidget) -> None:
        self._services, self.actions = services, actions
        self.kept = InstalledDetail(parent)
        self._used: tuple[Path, Path | DraftChoice] | None = None
        """Model and draft that are shown as in use."""
        view = RowsView[_Entry](tr("Models on this computer"), self._row, _key, parent)
        super().__init__(view, self.kept, parent)
        self._texts = EmptyTexts(
            tr("Looking through your models\N{HORIZONTAL ELLIPSIS}"),
            tr("No matching model."),
            tr("There is no model here yet. Drag one onto this page, or download one."),
            tr("Show recommended models"),
        )
        self._connect()

    def _connect(self) -> None:
        shelf, detail, actions = self._services.shelf, self.kept, self.actions
        self.view.chosen.connect(self._show_chosen)
        self.view.opened.connect(self._entered)
        shelf.changed.connect(self.show_list)
        shelf.settled.connect(self.view.choose_once_here)
        shelf.doing_changed.connect(lambda: detail.show_doing(shelf.doing, shelf.share))
        self._services.advising.drafts_known.connect(self._drafts_known)
        self._services.models.bridge.status_changed.connect(lambda _status: self._used_changed())
        detail.stop_button.clicked.connect(shelf.stop)
        doings: tuple[tuple[QPushButton, Callable[[KeptModel], None]], ...] = (
            (detail.use_button, lambda model: actions.use(model, detail.drafts.chosen)),
            (detail.place_button, partial(actions.adopt, copy=False)),
            (detail.copy_button, partial(actions.adopt, copy=True)),
            (detail.show_button, lambda model: show_folder(model.path)),
            (detail.check_button, actions.check),
            (detail.rename_button, actions.ask_name),
            (detail.move_button, actions.ask_folder),
            (detail.delete_button, actions.ask_delete),
            (detail.forget_button, actions.forget),
        )
        detail.drafts.changed.connect(self._draft_chosen)
        for button, do in doings:
            button.clicked.connect(lambda _=False, do=do: self._with_chosen(do))

    def opened(self) -> None:
        """Files come and go, and another model may answer."""
        self._used_changed()
        self._services.shelf.look()
        self.show_list()

    def show_list(self) -> None:
        """Show our models, then our drafts, then what other programs have."""
        shelf = self._services.shelf
        own = [each for each in shelf.kept if self._matches(each)]
        known = {each.path for each in shelf.kept}
        offered = [
            Offered(each)
            for each in shelf.elsewhere
            if each.path not in known and self._matches(each)
        ]
        entries: list[_Entry] = [each for each in own if not each.head]
        drafts = [each for each in own if each.head]
        if drafts:
            about = tr("They speed up a model, and cannot answer alone.")
            entries += [Heading(tr("Drafts"), about), *drafts]
        if offered:
            about = tr("Models of other programs; Duotail can use them too.")
            entries += [Heading(tr("Found on this disk"), about), *offered]
        self.show_entries(entries, self._texts, known=shelf.looked)

    def _matches(self, model: KeptModel) -> bool:
        return self.says(model.name, model.family, model.kind)

    def _show_chosen(self, entry: _Entry | None) -> None:
        model, offered = _model(entry)
        if model is None:
            return
        self._show_model(model, offered=offered)
        if offered or model.head or model.problem:
            return
        candidates = self._services.advising.drafts_of_kept(model, self._services.shelf.kept)
        if candidates is not None:
            wanted = self._services.models.bridge.status.wanted
            answers = wanted is not None and wanted.model == model.path
            self.kept.show_drafts(candidates, wanted.draft if wanted and answers else None)

    def _drafts_known(self, whose: Path | tuple[str, str]) -> None:
        model = self.kept.model
        if model is not None and whose == model.path:
            self._show_chosen(self.view.current)

    def _used_changed(self) -> None:
        """Renew the badge and the actions, as another model answers; not where nobody looks."""
        wanted = self._services.models.bridge.status.wanted
        used = None if wanted is None else (wanted.model, wanted.draft)
        if used == self._used or not self.view.isVisible():
            return
        self._used = used
        self.view.rows.say_anew()
        model, offered = _model(self.view.current)
        if model is not None:
            self._show_model(model, offered=offered)

    def _show_model(self, model: KeptModel, *, offered: bool) -> None:
        answers = self._services.models.running.possible
        self.kept.show_model(model, in_use=self._in_use(model), offered=offered, answers=answers)

    def _in_use(self, model: KeptModel) -> bool:
        """Return whether a model answers, or drafts for the one that does."""
        last = self._services.models.bridge.status.wanted
        if last is None:
            return False
        return model.path in (last.model, last.draft)

    def _row(self, entry: _Entry) -> ModelRow:
        if isinstance(entry, Heading):
            return ModelRow(entry.title, entry.about, heading=True)
        if isinstance(entry, Offered):
            return kept_row(entry.model, in_use=False)
        return kept_row(entry, in_use=self._in_use(entry))

    def _draft_chosen(self) -> None:
        """A draft chosen for the model that answers works from the next answer on."""
        wanted, model = self._services.models.bridge.status.wanted, self.kept.model
        if wanted is not None and model is not None and model.path == wanted.model:
            self.actions.draft_with(self.kept.drafts.chosen)

    def _with_chosen(self, do: Callable[[KeptModel], None]) -> None:
        if self.kept.model is not None:
            do(self.kept.model)

    def _entered(self, entry: _Entry) -> None:
        model, offered = _model(entry)
        if model is not None and not offered and not model.problem and not self._in_use(model):
            self.actions.use(model, self.kept.drafts.chosen)


def _key(entry: _Entry) -> Hashable:
    model, _ = _model(entry)
    return entry.title if isinstance(entry, Heading) else model and model.path


def _model(entry: _Entry | None) -> tuple[KeptModel | None, bool]:
    """Return the model of an entry, and whether it is only offered."""
    if isinstance(entry, Offered):
        return entry.model, True
    return (entry, False) if isinstance(entry, KeptModel) else (None, False)
