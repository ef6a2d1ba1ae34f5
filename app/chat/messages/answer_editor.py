"""A dialog to change an answer's text; what comes of it is a new version beside the old one."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QPlainTextEdit, QWidget

from app.theme.fonts import scaled
from app.widgets.boxes import vbox
from app.widgets.labels import plain_label
from engine.language import tr

_WIDTH, _HEIGHT = 780, 560


class AnswerEditor(QDialog):
    """Shows the text of an answer, to be changed."""

    saved = Signal(str)
    """The new text, which is another one."""

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Edit the answer"))
        self._before = text
        self.field = QPlainTextEdit(text, self)
        self.field.setAccessibleName(tr("Answer"))
        about = plain_label(
            tr(
                "The changed answer is a new version; the old one stays. The model goes on from "
                "what you write here."
            ),
            self,
            "muted",
        )
        buttons = QDialogButtonBox(self)
        buttons.addButton(tr("Save"), QDialogButtonBox.ButtonRole.AcceptRole)
        buttons.addButton(tr("Cancel"), QDialogButtonBox.ButtonRole.RejectRole)
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        self.accepted.connect(self._save)
        vbox(about, (self.field, 1), buttons, to=self)
        self.resize(scaled(_WIDTH), scaled(_HEIGHT))

    def _save(self) -> None:
        text = self.field.toPlainText()
        if text.strip() and text != self._before:
            self.saved.emit(text)
