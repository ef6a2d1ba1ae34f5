"""The messages that wait for the end of an answer, as lines above the composer."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QFrame, QLabel, QWidget

from app.chat.composer.context_meter import Fill
from app.session.message_drafts import Draft
from app.signals import TypedSignal
from app.theme.icons import IconButton
from app.widgets.boxes import hbox, vbox
from app.widgets.elided import ElidedLabel
from app.widgets.tab_order import tab_before
from engine.language import listed, tr


class WaitingMessage(QFrame):
    """One message that waits: its first words, and what can be done with it."""

    def __init__(self, draft: Draft, parent: QWidget) -> None:
        super().__init__(parent)
        self.draft = draft
        self.setProperty("look", "chip")
        self._state = QLabel(self)
        words = ElidedLabel(self)
        names = [each.name for each in draft.attachments]
        words.setText(" ".join(draft.text.split()) or listed(names))
        self._words = words.text()
        self.send_button = IconButton("send", tr("Stop the answer and send this now"), self)
        self.edit_button = IconButton("pencil", tr("Edit this message"), self)
        self.remove_button = IconButton("close", tr("Do not send this message"), self)
        hbox(
            self._state,
            (words, 1),
            self.send_button,
            self.edit_button,
            self.remove_button,
            to=self,
            spacing=8,
            margins=(10, 2, 4, 2),
        )
        self.show_fill(None)

    @property
    def buttons(self) -> tuple[IconButton, ...]:
        """Return its buttons, from left to right."""
        return self.send_button, self.edit_button, self.remove_button

    @property
    def state(self) -> str:
        """Return what the line says of the message."""
        return self._state.text()

    def show_fill(self, fill: Fill | None) -> None:
        """Say whether the message fits, where it is known how full the context is with it."""
        fits = fill is None or fill.fits
        state = tr("Waiting") if fits else tr("Does not fit into the context")
        if state != self.state:
            self._state.setText(state)
            self._state.setProperty("look", "small" if fits else "caution")
            self._state.style().polish(self._state)
            name = tr("Waiting: {words}") if fits else tr("Does not fit into the context: {words}")
            self.setAccessibleName(name.format(words=self._words))
        self.setToolTip("" if fill is None or fill.fits else fill.excess)


class WaitingMessages(QWidget):
    """All of them, in the order in which they are sent. Hidden when there are none."""

    send_asked = TypedSignal[Draft]()
    """The `Draft` that shall be sent now."""
    edit_asked = TypedSignal[Draft]()
    removed = TypedSignal[Draft]()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._column = vbox(to=self, spacing=4, margins=0)
        self.lines: list[WaitingMessage] = []
        self.followed_by: QWidget | None = None
        """The widget that Tab reaches after them."""
        self.hide()

    def show_drafts(self, drafts: Sequence[Draft]) -> None:
        """Show these, the next one first; what is shown already keeps the keyboard."""
        if [line.draft for line in self.lines] == list(drafts):
            return
        for line in self.lines:
            self._column.removeWidget(line)
            line.hide()
            line.deleteLater()
        self.lines = [self._line(draft) for draft in drafts]
        if self.followed_by is not None:
            tab_before(self.followed_by, [each for line in self.lines for each in line.buttons])
        self.setVisible(bool(self.lines))

    def _line(self, draft: Draft) -> WaitingMessage:
        line = WaitingMessage(draft, self)
        line.send_button.clicked.connect(lambda: self.send_asked.emit(draft))
        line.edit_button.clicked.connect(lambda: self.edit_asked.emit(draft))
        line.remove_button.clicked.connect(lambda: self.removed.emit(draft))
        self._column.addWidget(line)
        return line
