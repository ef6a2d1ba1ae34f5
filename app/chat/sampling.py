"""The small panel that says how answers are drawn: temperature and seed."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSlider,
    QVBoxLayout,
    QWidget,
)

_STEPS = 20
"""Slider steps per unit of temperature."""
_DEFAULT_SEED = 42


class SamplingPopover(QFrame):
    """A popup above the composer. `chosen` carries temperature and seed (None: a new one each)."""

    chosen = Signal(float, object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setProperty("look", "notice")
        self.setAccessibleName("How answers are drawn")
        self._slider = QSlider(Qt.Orientation.Horizontal, self)
        self._slider.setRange(0, 2 * _STEPS)
        self._slider.setMinimumHeight(24)
        self._slider.setAccessibleName("Temperature")
        self._number = QDoubleSpinBox(self)
        self._number.setRange(0, 2)
        self._number.setSingleStep(0.1)
        self._number.setDecimals(2)
        self._number.setAccessibleName("Temperature, as a number")
        self._number.setButtonSymbols(QDoubleSpinBox.ButtonSymbols.NoButtons)
        self._words = QLabel(self)
        self._words.setProperty("look", "muted")
        self._words.setWordWrap(True)
        self._fixed = QCheckBox("Same seed for every answer", self)
        self._seed = QLineEdit(self)
        self._seed.setAccessibleName("Seed")
        self._seed.setMaxLength(18)
        self._arrange()
        self._slider.valueChanged.connect(lambda step: self._number.setValue(step / _STEPS))
        self._number.valueChanged.connect(self._changed)
        self._fixed.toggled.connect(self._changed)
        self._seed.textEdited.connect(self._changed)

    def _arrange(self) -> None:
        title = QLabel("Temperature", self)
        title.setProperty("look", "title")
        title.setBuddy(self._slider)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self._slider, 1)
        row.addWidget(self._number)
        self._number.setFixedSize(64, 32)
        seeds = QHBoxLayout()
        seeds.setSpacing(12)
        seeds.addWidget(self._fixed, 1)
        seeds.addWidget(self._seed)
        self._seed.setFixedWidth(120)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(16, 14, 16, 16)
        layout.setSpacing(10)
        layout.addWidget(title)
        layout.addLayout(row)
        layout.addWidget(self._words)
        layout.addSpacing(4)
        layout.addLayout(seeds)
        self.setFixedWidth(380)

    def set_values(self, temperature: float, seed: int | None) -> None:
        """Show these values."""
        for widget in (self._slider, self._number, self._fixed, self._seed):
            widget.blockSignals(True)
        self._slider.setValue(round(temperature * _STEPS))
        self._number.setValue(temperature)
        self._fixed.setChecked(seed is not None)
        self._seed.setText(str(_DEFAULT_SEED if seed is None else seed))
        for widget in (self._slider, self._number, self._fixed, self._seed):
            widget.blockSignals(False)
        self._describe()

    def open_above(self, place: QPoint) -> None:
        """Open with the lower left corner at `place`, in screen coordinates."""
        self.adjustSize()
        self.move(place - QPoint(0, self.height()))
        self.show()

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Keyboard users land on the slider."""
        super().showEvent(event)
        self._slider.setFocus(Qt.FocusReason.PopupFocusReason)

    def _changed(self, *_: object) -> None:
        temperature = round(self._number.value(), 2)
        self._slider.blockSignals(True)
        self._slider.setValue(round(temperature * _STEPS))
        self._slider.blockSignals(False)
        self._describe()
        text = self._seed.text().strip()
        valid = text.isascii() and text.isdigit()
        if self._fixed.isChecked() and not valid:
            return  # half-typed: the last good seed stays in force
        self.chosen.emit(temperature, int(text) if self._fixed.isChecked() else None)

    def _describe(self) -> None:
        value = self._number.value()
        self._seed.setEnabled(self._fixed.isChecked())
        if value == 0:
            words = "Greedy: always the most likely word. The same question gives the same answer."
        elif value <= 0.5:
            words = "Close to the most likely words."
        elif value <= 1:
            words = "Varied, the way the model was trained."
        else:
            words = "Very varied; the text may lose its thread."
        self._words.setText(words)
