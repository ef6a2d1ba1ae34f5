"""Choices of a draft: by itself, one on this disk, lookup only, none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QWidget

from app.signals import TypedSignal
from app.tuning.choice_row import ChoiceRow
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import hbox, vbox
from app.widgets.button_group import keep_tab_on_checked
from app.widgets.terms import explained
from app.widgets.text_button import text_button
from engine.commands import DraftChoice, Mode
from engine.language import later, tr

_MOST = 4
"""Drafts on show; there is always room for those that were found, and the one that is chosen."""
_CHOICES = {
    DraftChoice.AUTO: (
        later("Automatic"),
        later("The model's own draft, or the fastest on this computer, and lookup."),
    ),
    DraftChoice.MTP: (
        later("The model's MTP head"),
        later("A block in the model's own files that drafts."),
    ),
    DraftChoice.LOOKUP: (
        later("Lookup only"),
        later("Drafts from text that occurred earlier in the conversation."),
    ),
    DraftChoice.NONE: (later("No draft"), ""),
}


class DraftList(QWidget):
    """Radio buttons, and two buttons to open more drafts."""

    chosen = TypedSignal[Path | DraftChoice]()
    """Comes from the user only."""
    folder_asked = Signal()
    file_asked = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows: dict[Path | DraftChoice, ChoiceRow] = {}
        self._group = QButtonGroup(self)
        self._keep_tab = keep_tab_on_checked(self._group)
        self._names: Mapping[Path, str] = {}
        self._room = 0
        self._column = vbox(spacing=4)
        self.folder_button = text_button(tr("Open a draft folder…"), self)
        self.folder_button.setToolTip(tr("A trained head, or a small model of the same family"))
        self.folder_button.clicked.connect(self.folder_asked)
        self.file_button = text_button(tr("Open a draft file…"), self)
        self.file_button.setToolTip(tr("A small model of the same family in GGUF format"))
        self.file_button.clicked.connect(self.file_asked)
        self._buttons = hbox(self.folder_button, self.file_button, 1, spacing=8)
        vbox(self._column, self._buttons, to=self, spacing=8, margins=0)

    def show_choice(self, choice: RunChoice) -> bool:
        """Show which one is chosen, among the model's drafts; whether there are other rows now."""
        draft, before, names = choice.profile.draft, list(self.rows), _drafts(choice)
        has_mtp = choice.running.has_mtp
        mtp = [DraftChoice.MTP] if has_mtp is not None or draft is DraftChoice.MTP else []
        self._offer([DraftChoice.AUTO, *mtp, *names, DraftChoice.LOOKUP, DraftChoice.NONE], names)
        self.rows[draft].button.setChecked(True)
        if mtp:
            self._say_whether_there(has_mtp is not False, draft)
        self._say_own(choice)
        self.setEnabled(choice.profile.mode is not Mode.PLAIN)
        return list(self.rows) != before

    def _say_whether_there(self, there: bool, draft: Path | DraftChoice) -> None:
        """Say that the model's files have no MTP head, where models of its family may."""
        row, (_, about) = self.rows[DraftChoice.MTP], _CHOICES[DraftChoice.MTP]
        row.say(tr(about) if there else tr("This file has no MTP head."))
        row.button.setEnabled(there or draft is DraftChoice.MTP)

    def _say_own(self, choice: RunChoice) -> None:
        """Say which draft the automatic choice comes to, once it is chosen and that is known."""
        row, (_, about) = self.rows[DraftChoice.AUTO], _CHOICES[DraftChoice.AUTO]
        told = choice.told if choice.profile.draft is DraftChoice.AUTO else None
        if told is None or told.plan is None or told.load.draft is not DraftChoice.AUTO:
            row.say(tr(about))
            return
        draft = told.plan.draft
        row.say(tr("Now: {draft}").format(draft=draft) if draft else tr("Now: none"))

    def fit(self, width: int) -> None:
        """Make room for so many logical pixels."""
        self._room = width
        for row in self.rows.values():
            row.fit(width)

    def _offer(self, choices: Sequence[Path | DraftChoice], names: Mapping[Path, str]) -> None:
        """Show these; a row that stays is the same one, which may have the keyboard."""
        if list(self.rows) == list(choices) and names == self._names:
            return
        before, self._names = self._names, names
        stays = {
            choice: self.rows.pop(choice)
            for choice in choices
            if choice in self.rows
            and (not isinstance(choice, Path) or names[choice] == before[choice])
        }
        for row in self.rows.values():
            self._group.removeButton(row.button)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        self.rows = {choice: stays.get(choice) or self._row(choice) for choice in choices}
        for place, row in enumerate(self.rows.values()):
            self._column.insertWidget(place, row)
        self._keep_tab()

    def _row(self, choice: Path | DraftChoice) -> ChoiceRow:
        if isinstance(choice, Path):
            row = ChoiceRow(self._names[choice], "", self)
            row.button.setToolTip(str(choice))
        else:
            label, about = _CHOICES[choice]
            row = ChoiceRow(tr(label), tr(about) if about else "", self)
            row.setToolTip(explained(tr("Lookup")) if choice is DraftChoice.LOOKUP else "")
        self._group.addButton(row.button)
        row.button.clicked.connect(lambda _=False: self.chosen.emit(choice))
        row.fit(self._room)
        row.show()
        return row


def _drafts(choice: RunChoice) -> dict[Path, str]:
    """Return the drafts to show, with their names: those found, then the last ones used, by name.

    Choosing one moves none.
    """
    running, chosen = choice.running, choice.profile.draft
    found = [each.path for each in running.drafts_found]
    used = [*([chosen] if isinstance(chosen, Path) else []), *running.drafts]
    more = [each for each in dict.fromkeys(used) if each not in found]
    names = {each: running.draft_name(each) for each in more[: max(_MOST - len(found), 1)]}
    more = sorted(names, key=lambda draft: (names[draft].casefold(), str(draft)))
    return {each: running.draft_name(each) for each in (*found, *more)}
