"""The line that says how much of the conversation the model no longer sees."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.session.request import seen
from app.session.session import ChatSession
from app.signals import TypedSignal
from app.widgets.boxes import hbox
from app.widgets.elided import ElidedLabel
from engine.language import tr, tr_count


class LeftOutNote(QWidget):
    """Hidden while the model sees everything."""

    moved = TypedSignal[int | None, str]()
    """The last message it does not see (None: it sees all), and what to say below that."""

    def __init__(self, session: ChatSession, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._label = ElidedLabel(self)
        self._label.setProperty("look", "small")
        self.undo_button = QToolButton(self)
        self.undo_button.setText(tr("Include them again"))
        self.undo_button.setProperty("look", "quiet")
        self.undo_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.undo_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.undo_button.clicked.connect(self._show_all)
        hbox((self._label, 1), self.undo_button, to=self, margins=(6, 0, 0, 0))
        session.opened.connect(lambda _: self.refresh())
        session.branch_changed.connect(lambda *_: self.refresh())
        session.changed.connect(self.refresh)
        self.refresh()

    @property
    def text(self) -> str:
        """Return the text of the note."""
        return self._label.text()

    def refresh(self) -> None:
        """Count anew what is left out."""
        messages = self._session.messages
        left_out = len(messages) - len(seen(messages, self._session.setup))
        self._label.setText(
            tr_count(
                "The model no longer sees the oldest message.",
                "The model no longer sees the {n} oldest messages.",
                left_out,
            )
        )
        self.setVisible(left_out > 0)
        last = messages[left_out - 1].id if left_out else None
        self.moved.emit(last, tr("The model does not see what is above"))

    def _show_all(self) -> None:
        self._session.set_setup(replace(self._session.setup, seen_after=None))
