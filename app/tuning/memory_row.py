"""Row with the most GPU memory that Duotail may use."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QSlider,
    QVBoxLayout,
    QWidget,
)

from app.engine_link.plan_texts import accelerator_of, card_name
from app.settings.model import SMALLEST_VRAM
from app.theme.fonts import keep_sized, scaled
from app.widgets.labels import plain_label
from engine.events import PlanSummary
from engine.language import sentences, tr
from engine.language.units import memory
from engine.machine.facts import Machine

_GIB = 2**30
_STEP = 0.25
_FIRST = 2.0
"""GiB that the ceiling begins with where nothing tells what would be useful."""


class MemoryRow(QWidget):
    """A ceiling in GiB, or as much as is useful."""

    chosen = Signal(object)
    """Bytes, or None; comes from the user only."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._knee: int | None = None
        self.automatic = QCheckBox(tr("As much as is useful"), self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setMinimumHeight(24)
        self.number = QDoubleSpinBox(self)
        for widget in (self.slider, self.number, self.number.lineEdit()):
            widget.setAccessibleName(tr("Graphics memory at most, in GiB"))
        self.number.setDecimals(2)
        self.number.setSingleStep(_STEP)
        self.number.setSuffix(tr("{n} GiB").format(n=""))
        self.number.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        keep_sized(self.number, lambda: self.number.setFixedSize(scaled(96), scaled(32)))
        self._about = plain_label("", self, "small")
        self._controls = QWidget(self)
        row = QHBoxLayout(self._controls)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(12)
        row.addWidget(self.automatic)
        row.addWidget(self.slider, 1)
        row.addWidget(self.number)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(self._controls)
        column.addWidget(self._about)
        self.automatic.clicked.connect(self._toggle)
        self.slider.valueChanged.connect(lambda step: self.number.setValue(step * _STEP))
        self.number.valueChanged.connect(self._change)

    def show_ceiling(
        self, vram: int | None, machine: Machine | None, plan: PlanSummary | None
    ) -> None:
        """Show the ceiling, and what there is."""
        found = accelerator_of(machine)
        total = (found.memory_total or 0) / _GIB if found is not None else 0.0
        self._knee = plan.knee if plan is not None else None
        self._controls.setVisible(found is not None)
        self._about.setText(
            _without(machine)
            if found is None
            else sentences(
                tr("At most this much of {device} ({size}), less where more is no faster.").format(
                    device=card_name(machine), size=memory(found.memory_total or 0)
                ),
                "" if self._knee is None else _useful(self._knee),
            )
        )
        self.blockSignals(True)
        self.automatic.setChecked(vram is None)
        self.slider.setRange(round(SMALLEST_VRAM / _STEP), max(int(total / _STEP), 1))
        self.number.setRange(SMALLEST_VRAM, max(total, SMALLEST_VRAM))
        self._show_number(vram)
        self.blockSignals(False)

    def _show_number(self, vram: int | None) -> None:
        shown = round(self._usual if vram is None else vram / _GIB, self.number.decimals())
        if self.number.value() != shown:  # half-typed numbers stay as they are
            self.number.setValue(shown)
        self._follow()
        for widget in (self.slider, self.number):
            widget.setEnabled(vram is not None)

    @property
    def _usual(self) -> float:
        """Return the ceiling to begin with."""
        return self._knee / _GIB if self._knee else _FIRST

    def _toggle(self, automatic: bool) -> None:
        for widget in (self.slider, self.number):
            widget.setEnabled(not automatic)
        if automatic:
            self.chosen.emit(None)
        else:
            self.slider.setFocus(Qt.FocusReason.OtherFocusReason)
            self._change()

    def _change(self, *_: object) -> None:
        self._follow()
        if not self.automatic.isChecked():
            self.chosen.emit(round(self.number.value() * _GIB))

    def _follow(self) -> None:
        self.slider.blockSignals(True)
        self.slider.setValue(round(self.number.value() / _STEP))
        self.slider.blockSignals(False)


def _useful(knee: int) -> str:
    if not knee:
        return tr("For this model it brings no speed.")
    return tr("Here {size} are about enough for the best speed.").format(size=memory(knee))


def _without(machine: Machine | None) -> str:
    """Return why there is nothing to choose."""
    reasons = [
        tr("{name} is not used: {reason}.").format(name=card.name, reason=card.unusable)
        for card in (machine.accelerators if machine is not None else ())
        if card.unusable
    ]
    return sentences(*reasons) or tr("No graphics card was found.")
