"""The modes with a sentence each; those that cannot run on this PC or with this draft say why."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QVBoxLayout, QWidget

from app.engine_link.plan_texts import (
    MODE_NAMES,
    MODE_SENTENCES,
    NO_ACCELERATOR,
    NO_DRAFT_MODEL,
    accelerator_of,
)
from app.tuning.choice_row import ChoiceRow
from engine.commands import DraftChoice, Mode
from engine.language import tr
from engine.machine.facts import Machine

_MODES = tuple(MODE_NAMES)


class ModeList(QWidget):
    """Radio buttons, one per mode."""

    chosen = Signal(object)
    """The `Mode`; comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.rows = {
            mode: ChoiceRow(tr(MODE_NAMES[mode]), tr(MODE_SENTENCES[mode]), self) for mode in _MODES
        }
        self._refusals: Mapping[Mode, str] = {}
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for number, mode in enumerate(_MODES):
            self._group.addButton(self.rows[mode].button, number)
            column.addWidget(self.rows[mode])
        self._group.idClicked.connect(lambda number: self.chosen.emit(_MODES[number]))

    def show_mode(
        self,
        mode: Mode,
        machine: Machine | None,
        draft: Path | DraftChoice,
        refusals: Mapping[Mode, str] | None = None,
    ) -> None:
        """Show which one is chosen, and what can be chosen on this machine with this draft.

        `refusals`: why one finds no room now; it can be chosen all the same, to see a way out.
        """
        self._refusals = refusals or {}
        self.rows[mode].button.setChecked(True)
        for free in (Mode.AUTO, Mode.CPU, Mode.PLAIN):
            self._offer(free, "", chosen=mode is free)
        card = machine is None or accelerator_of(machine) is not None
        missing = "" if card else NO_ACCELERATOR
        self._offer(Mode.DOVETAIL, missing, chosen=mode is Mode.DOVETAIL)
        if card and draft in (DraftChoice.LOOKUP, DraftChoice.NONE):
            missing = NO_DRAFT_MODEL
        self._offer(Mode.DUO, missing, chosen=mode is Mode.DUO)

    def _offer(self, mode: Mode, missing: str, *, chosen: bool) -> None:
        """Enable a mode, or say what it lacks. What is chosen stays so: the engine says no."""
        row = self.rows[mode]
        row.button.setEnabled(chosen or not missing)
        row.say(tr(missing) if missing else self._refusals.get(mode) or tr(MODE_SENTENCES[mode]))

    def tell(self, notes: Mapping[Mode, str]) -> None:
        """Show a few words on the speed of each mode; none where nothing is known."""
        for mode, row in self.rows.items():
            row.tell(notes.get(mode, ""))
