"""The quiet line under the composer: state, model, mode, draft; a load's progress and its end."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QProgressBar, QSizePolicy, QToolButton, QWidget

from app.engine_link.status import EngineStatus, Phase
from app.theme.fonts import keep_font, sized
from app.theme.keys import with_keys
from app.theme.style import SMALL
from app.theme.theme import current
from app.widgets.boxes import hbox
from app.widgets.elided import ElidedLabel
from app.widgets.terms import plan_tooltip
from engine.language import tr

_STEPS = 1000


class _Dot(QWidget):
    """A coloured dot; the words beside it say the same."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setFixedSize(8, 8)
        self.role = "muted"

    def paintEvent(self, _event: QPaintEvent) -> None:  # noqa: N802
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(str(getattr(current(), self.role))))
        painter.drawEllipse(self.rect())


class StatusLine(QWidget):
    """Says in words what the engine does and what it runs."""

    model_asked = Signal()
    """A model shall be chosen."""
    cancel_asked = Signal()
    """The load or the measurement under way shall be called off."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Status"))
        self._dot = _Dot(self)
        self._state = ElidedLabel(self)
        self._model = ElidedLabel(self)
        self.progress = QProgressBar(self, textVisible=False)
        self.progress.setRange(0, _STEPS)
        self.progress.setFixedSize(120, 4)
        self.progress.setAccessibleName(tr("Progress"))
        self.cancel_button = QToolButton(self)
        self.cancel_button.setText(tr("Cancel"))
        self.cancel_button.setProperty("look", "quiet")
        self._name_cancel(tr("Cancel loading"))
        self.cancel_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.cancel_button.clicked.connect(self.cancel_asked)
        self.model_button = QToolButton(self)
        self.model_button.setText(tr("Choose a model"))
        self.model_button.setProperty("look", "quiet")
        self.model_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.model_button.clicked.connect(self.model_asked)
        for button in (self.cancel_button, self.model_button):
            keep_font(button, partial(sized, SMALL))
        self._model.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        for label in (self._state, self._model):
            keep_font(label, partial(sized, SMALL))
            label.setProperty("look", "muted")
        self._state.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        hbox(
            self._dot,
            self._state,
            self.progress,
            self.cancel_button,
            self.model_button,
            (self._model, 1),
            to=self,
            spacing=8,
            margins=(6, 0, 6, 0),
        )

    @property
    def text(self) -> str:
        """Return the whole text of the line."""
        return f"{self._state.text()} {self._model.text()}".strip()

    def show_status(self, status: EngineStatus) -> None:
        """Show the engine's state, and model, mode and draft when one is loaded."""
        self._dot.role = _role(status.phase)
        self._dot.update()
        self._state.setText(status.words)
        loading, measuring = status.phase is Phase.LOADING, status.measuring
        fraction = (status.measuring_done or 0.0) if measuring else status.fraction
        self.progress.setVisible(loading or measuring)
        self.progress.setValue(round(fraction * _STEPS))
        self.cancel_button.setVisible(loading or measuring)
        self.model_button.setVisible(status.phase is Phase.NO_MODEL)
        self._name_cancel(tr("Cancel measuring") if measuring else tr("Cancel loading"))
        parts = [status.model_name, status.plan_words] if status.plan else []
        self._model.setText(" · ".join(parts))
        if status.plan is not None:
            self.setToolTip(plan_tooltip(status.plan))
        self.setAccessibleDescription(self.text)

    def _name_cancel(self, words: str) -> None:
        self.cancel_button.setAccessibleName(words)
        self.cancel_button.setToolTip(with_keys(words, "Esc"))

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour the dot with the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange and hasattr(self, "_dot"):
            self._dot.update()


def _role(phase: Phase) -> str:
    match phase:
        case Phase.READY:
            return "success"
        case Phase.BROKEN | Phase.NO_MODEL:
            return "danger"
        case Phase.PREPARING | Phase.LOADING | Phase.STOPPING:
            return "warning"
        case _:
            return "accent"
