"""The modes with a sentence each; those that cannot run on this PC or with this draft say why."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtWidgets import QButtonGroup, QWidget

from app.engine_link.plan_texts import (
    MODE_NAMES,
    MODE_SENTENCES,
    NO_ACCELERATOR,
    NO_DRAFT_MODEL,
    about_speed,
    accelerator_of,
)
from app.signals import TypedSignal
from app.tuning.choice_row import ChoiceRow
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import hbox, vbox
from app.widgets.button_group import keep_tab_on_checked
from app.widgets.text_button import text_button
from engine.commands import DraftChoice, Mode
from engine.language import tr

_MODES = tuple(MODE_NAMES)


class ModeList(QWidget):
    """Radio buttons, one per mode."""

    chosen = TypedSignal[Mode]()
    """Comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows = {
            mode: ChoiceRow(tr(MODE_NAMES[mode]), tr(MODE_SENTENCES[mode]), self) for mode in _MODES
        }
        self._refusals: Mapping[Mode, str] = {}
        self._group = QButtonGroup(self)
        keep_tab_on_checked(self._group)
        column = vbox(to=self, spacing=4, margins=0)
        for number, mode in enumerate(_MODES):
            self._group.addButton(self.rows[mode].button, number)
            column.addWidget(self.rows[mode])
        words = tr("Two more modes need a GPU\N{HORIZONTAL ELLIPSIS}")
        self.others = text_button(words, self, look="choice")
        self.others.setToolTip(tr(NO_ACCELERATOR))
        self.others.clicked.connect(lambda _=False: self._show_others())
        self._opened = False
        column.addLayout(hbox(self.others, 1, margins=(0, 6, 0, 0)))
        self._group.idClicked.connect(lambda number: self.chosen.emit(_MODES[number]))

    def show_choice(self, choice: RunChoice) -> None:
        """Show which one is chosen, what can be chosen with the draft, and each one's speed.

        What finds no room now says why; it can be chosen all the same, to see a way out.
        """
        told, mode, draft = choice.told, choice.profile.mode, choice.profile.draft
        machine, curves = choice.machine, () if told is None else told.curves
        self._refusals = {curve.mode: curve.refusal for curve in curves if curve.refusal}
        self.rows[mode].button.setChecked(True)
        for free in (Mode.AUTO, Mode.CPU, Mode.PLAIN):
            self._offer(free, "", chosen=mode is free)
        card = machine is None or accelerator_of(machine) is not None
        missing = "" if card else NO_ACCELERATOR
        self._offer(Mode.DOVETAIL, missing, chosen=mode is Mode.DOVETAIL)
        if card and draft in (DraftChoice.LOOKUP, DraftChoice.NONE):
            missing = NO_DRAFT_MODEL
        self._offer(Mode.DUO, missing, chosen=mode is Mode.DUO)
        if not card:
            self.rows[Mode.CPU].say(tr("The CPU drafts and verifies."))
        self._hide_others(card=card, mode=mode)
        points = {curve.mode: curve.at(choice.profile.vram) for curve in curves}
        for each, row in self.rows.items():
            point = points.get(each) if row.button.isEnabled() else None
            row.tell("" if point is None else about_speed(point.tokens_per_s))

    def _hide_others(self, *, card: bool, mode: Mode) -> None:
        """Keep the modes that need a GPU behind one line where there is none."""
        needing = (Mode.DOVETAIL, Mode.DUO)
        hidden = not card and not self._opened and mode not in needing
        for each in needing:
            self.rows[each].setHidden(hidden)
        self.others.setVisible(hidden)

    def _show_others(self) -> None:
        self._opened = True
        self._hide_others(card=False, mode=Mode.AUTO)

    def _offer(self, mode: Mode, missing: str, *, chosen: bool) -> None:
        """Enable a mode, or say what it lacks. What is chosen stays so: the engine says no."""
        row = self.rows[mode]
        row.button.setEnabled(chosen or not missing)
        row.say(tr(missing) if missing else self._refusals.get(mode) or tr(MODE_SENTENCES[mode]))
