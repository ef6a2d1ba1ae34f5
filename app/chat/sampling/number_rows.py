"""Rows of numbers in the setup panel: a name, a field, a sentence that explains it."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QGridLayout, QLabel, QWidget

from app.settings.kinds import Number
from app.settings.presets import FIELDS
from app.theme.fonts import keep_sized, scaled
from app.widgets.labels import plain_label
from app.widgets.number_box import RealBox, WholeBox
from engine.language import later, tr

_LONGEST_ANSWER = 1_000_000
_LENGTHS = ("max_tokens", "thought_tokens")
"""Numbers of tokens, of which the lowest means that there is no limit."""


@dataclass(frozen=True, slots=True)
class NumberSpec:
    """One number of a `ChatSetup` that is asked for, called and explained as in a preset."""

    field: str
    lowest_words: str = ""
    """The name of the lowest value, for `tr`."""

    @property
    def label(self) -> str:
        """Return the name of the setting."""
        return tr(FIELDS[self.field].label)

    @property
    def help(self) -> str:
        """Return the explanation of the setting."""
        return tr(FIELDS[self.field].about)


SPECS = (
    NumberSpec("top_k", later("all")),
    NumberSpec("top_p"),
    NumberSpec("min_p", later("off")),
    NumberSpec("repetition_penalty"),
    NumberSpec("presence_penalty"),
    NumberSpec("frequency_penalty"),
    NumberSpec("max_tokens", later("no limit")),
    NumberSpec("thought_tokens", later("no limit")),
)


class NumberRow(QWidget):
    """One number with its name and what it does. `changed` comes from the user only."""

    changed = Signal()

    def __init__(self, spec: NumberSpec, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.spec = spec
        self.box = _box(spec.field, self)
        self.box.valueChanged.connect(lambda _: self.changed.emit())
        self.box.setAlignment(Qt.AlignmentFlag.AlignRight)
        keep_sized(self.box, lambda: self.box.setFixedSize(scaled(104), scaled(32)))
        self.box.setAccessibleName(spec.label)
        self.box.lineEdit().setAccessibleName(spec.label)
        self.box.setAccessibleDescription(spec.help)
        if spec.lowest_words:
            self.box.setSpecialValueText(tr(spec.lowest_words))
        label = QLabel(spec.label, self)
        label.setBuddy(self.box)
        explained = plain_label(spec.help, self, "small")
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(16)
        grid.setVerticalSpacing(0)
        grid.addWidget(label, 0, 0)
        grid.addWidget(explained, 1, 0)
        grid.addWidget(self.box, 0, 1, 2, 1, Qt.AlignmentFlag.AlignVCenter)
        grid.setColumnStretch(0, 1)

    @property
    def value(self) -> float | int | None:
        """The number; None for an answer of any length."""
        if isinstance(self.box, RealBox):
            return round(self.box.value(), self.box.decimals())
        return self.box.value() or (None if self.spec.field in _LENGTHS else 0)

    def show_value(self, value: float | None) -> None:
        """Show a number without telling that it changed."""
        self.box.blockSignals(True)
        if isinstance(self.box, RealBox):
            self.box.setValue(float(value or 0))
        else:
            self.box.setValue(round(value or 0))
        self.box.blockSignals(False)


def _box(field: str, parent: QWidget) -> WholeBox | RealBox:
    kind = FIELDS[field].kind
    if isinstance(kind, Number):
        real = RealBox(parent)
        real.setRange(kind.lowest, kind.highest)
        real.setSingleStep(kind.step)
        return real
    whole = WholeBox(parent)
    longest = field in _LENGTHS
    whole.setRange(0, _LONGEST_ANSWER if longest else 1000)
    whole.setSingleStep(100 if longest else 10)
    return whole
