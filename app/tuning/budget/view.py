"""The budget of graphics memory: a slider, and in pictures what comes of where it stands."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.settings.rows import plain_label
from app.tuning.budget.model import BudgetModel
from app.tuning.budget.slider import BudgetSlider
from app.tuning.budget.wording import knee_words, mode_words, sentence
from engine.language import sentences

_GAP = 8


class BudgetView(QWidget):
    """Shows a `BudgetModel`, and lets the user choose a ceiling; changes nothing by itself."""

    ceiling_changed = Signal(object)
    """Bytes; comes from the user only, at every step of a drag."""
    settled = Signal(object)
    """Bytes; the user let go."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.model: BudgetModel | None = None
        self._ceiling: int | None = None
        self.sentence = plain_label("", self, "heading")
        self.note = plain_label("", self, "muted")
        self.slider = BudgetSlider(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(_GAP)
        for part in (self.sentence, self.note, self.slider):
            column.addWidget(part)
        self.slider.moved.connect(self._moved)
        self.slider.settled.connect(lambda: self.settled.emit(self._ceiling))

    @property
    def ceiling(self) -> int | None:
        """Bytes; None is Auto: as much as is useful."""
        return self._ceiling

    def set_ceiling(self, ceiling: int | None) -> None:
        """Show another ceiling; tells nobody."""
        if ceiling != self._ceiling:
            self._ceiling = ceiling
            self._show_ceiling()

    def show_model(self, model: BudgetModel) -> None:
        """Show what is known now; the ceiling stays."""
        if model != self.model:
            self.model = model
            self.slider.show_model(model)
            self._show_ceiling()

    def _moved(self, index: int) -> None:
        if self.model is not None and self.model.points:
            self._ceiling = self.model.points[index].vram
            self._show_ceiling()
            self.ceiling_changed.emit(self._ceiling)

    def _show_ceiling(self) -> None:
        model, ceiling = self.model, self._ceiling
        if model is None:
            return
        said = sentence(model, ceiling)
        self.slider.show_step(model.index(ceiling))
        self.slider.setAccessibleDescription(said)
        self.sentence.setText(said)
        self.note.setText(sentences(mode_words(model, ceiling), knee_words(model)))
