"""The card that says that a conversation does not fit, and lets the user choose what to do."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import QFrame, QLabel, QPushButton, QWidget

from app.theme.fonts import scaled
from app.theme.icons import icon
from app.theme.theme import current
from app.widgets.boxes import Spacing, hbox, vbox
from app.widgets.flow_layout import FlowLayout
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import number, tr, tr_count
from engine.language.units import memory


@dataclass(frozen=True, slots=True)
class LargerContext:
    """A context that would hold it, and the memory it takes on top."""

    tokens: int
    more_bytes: int


class ContextCard(QFrame):
    """A sentence and up to three ways on; nothing is chosen for the user.

    It takes no focus: somebody may be typing.
    """

    left_out = Signal()
    enlarged = Signal(int)
    parts_asked = Signal()
    """Only what matters of the attached files shall go along."""
    dismissed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "warning")
        self._larger: LargerContext | None = None
        self._icon = QLabel(self, alignment=Qt.AlignmentFlag.AlignTop)
        self._title = plain_label("", self, "title")
        self._text = plain_label("", self)
        self.leave_out_button = self._button()
        self.leave_out_button.clicked.connect(self.left_out)
        self.parts_button = self._button()
        self.parts_button.setText(tr("Attach the relevant parts only"))
        self.parts_button.setToolTip(
            tr("Takes the passages that share most words with your question; you see which.")
        )
        self.parts_button.clicked.connect(self.parts_asked)
        self.enlarge_button = self._button()
        self.enlarge_button.clicked.connect(self._enlarge)
        self.dismiss_button = self._button()
        self.dismiss_button.clicked.connect(self.dismissed)
        buttons = QWidget(self)
        offered = (
            *(self.parts_button, self.leave_out_button),
            *(self.enlarge_button, self.dismiss_button),
        )
        FlowLayout(*offered, to=buttons, spacing=8)
        hbox(
            self._icon,
            (vbox(self._title, self._text, Spacing(4), buttons, spacing=4), 1),
            to=self,
            spacing=10,
            margins=(14, 10, 12, 12),
        )
        self._recolour()
        self.hide()

    def _button(self) -> QPushButton:
        button = text_button("", self)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        return button

    @property
    def text(self) -> str:
        """Return all texts of the card."""
        return f"{self._title.text()} {self._text.text()}"

    def open(self, title: str, text: str, dismiss: str) -> None:
        """Say what is the matter; the ways on follow as they are found."""
        self.say(title, text, dismiss)
        for button in (self.parts_button, self.leave_out_button, self.enlarge_button):
            button.hide()
        self.show()

    def say(self, title: str, text: str, dismiss: str) -> None:
        """Say it in other words; what is offered stays."""
        self._title.setText(title)
        self._text.setText(text)
        self.setAccessibleName(f"{title} {text}")
        self.dismiss_button.setText(dismiss)

    def counting(self) -> None:
        """Tell that the messages to be left out are being counted."""
        self.leave_out_button.setText(tr("Counting\u2026"))
        self.leave_out_button.setEnabled(False)
        self.leave_out_button.show()

    def offer_leaving_out(self, messages: int, *, more: bool = False) -> None:
        """Offer to leave out the oldest messages (`more` of them); 0: that does not help."""
        self.leave_out_button.setVisible(messages > 0)
        self.leave_out_button.setEnabled(True)
        self.leave_out_button.setText(
            tr_count("Leave out one more message", "Leave out {n} more messages", messages)
            if more
            else tr_count(
                "Leave out the oldest message", "Leave out the {n} oldest messages", messages
            )
        )
        self.leave_out_button.setToolTip(
            tr("The model no longer sees them. They stay here, and you can read them.")
        )

    def offer_parts(self) -> None:
        """Offer to attach only what matters of the files."""
        self.parts_button.show()

    def offer_larger(self, larger: LargerContext) -> None:
        """Offer to load the model with a larger context."""
        self._larger = larger
        self.enlarge_button.setText(
            tr("Use a context of {tokens} tokens (+{size})").format(
                tokens=number(larger.tokens), size=memory(larger.more_bytes)
            )
        )
        self.enlarge_button.setToolTip(
            tr("Reloads the model with more memory. This takes a moment.")
        )
        self.enlarge_button.show()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(
            self, "_icon"
        ):
            self._recolour()

    def _enlarge(self) -> None:
        if self._larger is not None:
            self.enlarged.emit(self._larger.tokens)

    def _recolour(self) -> None:
        self._icon.setPixmap(icon("warning", current().warning).pixmap(scaled(20), scaled(20)))
