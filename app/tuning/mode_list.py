"""The modes with a sentence each; those that this PC or this version cannot run say why."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QButtonGroup, QVBoxLayout, QWidget

from app.tuning.choice_row import ChoiceRow
from app.tuning.words import MODE_NAMES, MODE_SENTENCES, NO_ACCELERATOR, accelerator_of
from engine.commands import Mode
from engine.language import tr
from engine.plan.machine import Machine

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
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        for number, mode in enumerate(_MODES):
            self._group.addButton(self.rows[mode].button, number)
            column.addWidget(self.rows[mode])
        self.rows[Mode.DUO].button.setEnabled(False)
        self._group.idClicked.connect(lambda number: self.chosen.emit(_MODES[number]))

    def show_mode(self, mode: Mode, machine: Machine | None) -> None:
        """Show which one is chosen, and what can be chosen on this machine."""
        self.rows[mode].button.setChecked(True)
        dovetail = self.rows[Mode.DOVETAIL]
        possible = machine is None or accelerator_of(machine) is not None
        dovetail.button.setEnabled(possible or mode is Mode.DOVETAIL)
        dovetail.say(tr(MODE_SENTENCES[Mode.DOVETAIL] if possible else NO_ACCELERATOR))
