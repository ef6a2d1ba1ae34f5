"""The controls for a text: a line that says what is wrong with it, a field of several lines."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSignalBlocker, QTimer
from PySide6.QtGui import QHideEvent
from PySide6.QtWidgets import QLineEdit, QPlainTextEdit, QWidget

from app.settings.kinds import Browse, Prose, Word
from app.settings.model import Settings
from app.settings_page.editors import Editor
from app.widgets.file_dialog import ask_for_path
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import number, tr

_WIDTH = 22
"""Letters "m" that a field has room for."""
_LINES = 5
_PAUSE_MS = 400


class TextEditor(Editor):
    """A line; what can be used applies when it is left, or at Enter."""

    def __init__(self, name: str, kind: Word, parent: QWidget | None = None) -> None:
        self._field = QLineEdit()
        super().__init__(self._field, parent)
        self._name, self._kind = name, kind
        self._field.setPlaceholderText(tr(kind.hint))
        self._field.setMaxLength(kind.longest)
        self._field.setClearButtonEnabled(True)
        self._field.setMinimumWidth(_WIDTH * self.fontMetrics().horizontalAdvance("m") // 2)
        self.wrong = plain_label(tr(kind.wrong), self, "danger")
        self.wrong.hide()
        self.column.addWidget(self.wrong)
        self._field.textEdited.connect(lambda _text: self._judge())
        self._field.editingFinished.connect(self._apply)
        if kind.browse is not None:
            self._add_button(kind.browse)

    def show_settings(self, settings: Settings) -> None:
        """Show the text in force, unless another one is being typed."""
        value = getattr(settings, self._name)
        if not self._field.hasFocus() or not self._field.isModified():
            self._field.setText(value)
            self.wrong.hide()

    def _add_button(self, browse: Browse) -> None:
        words = tr("Choose a folder") if browse is Browse.FOLDER else tr("Choose a file")
        button = text_button(tr("Choose…"), self, lambda: self._choose(browse, words))
        button.setAccessibleDescription(words)
        self.line.addWidget(button)

    def _choose(self, browse: Browse, words: str) -> None:
        typed = self._field.text().strip()
        known = Path(typed) if typed else None
        if known is not None and browse is Browse.FILE:
            known = known.parent
        folder = browse is Browse.FOLDER
        ask_for_path(self.window(), words, self._take, folder=folder, start=known)

    def _take(self, chosen: Path) -> None:
        self._field.setText(str(chosen))
        self._apply()

    def _is_usable(self) -> bool:
        return self._kind.usable(self._field.text().strip())

    def _judge(self) -> None:
        """While typing only what is right is said; half an address is no mistake."""
        if self._is_usable():
            self.wrong.hide()

    def _apply(self) -> None:
        usable = self._is_usable()
        self.wrong.setVisible(not usable)
        if usable:
            self._field.setModified(False)
            self.chosen.emit(self._field.text().strip())


class ProseEditor(Editor):
    """A field of several lines; what is typed applies after a pause, and when it is left."""

    def __init__(self, name: str, kind: Prose, parent: QWidget | None = None) -> None:
        self._field = QPlainTextEdit()
        super().__init__(self._field, parent)
        self._name, self._kind = name, kind
        self._field.setPlaceholderText(tr(kind.hint))
        self._field.setTabChangesFocus(True)
        self._field.setFixedHeight(self._field.fontMetrics().lineSpacing() * _LINES + 18)
        self._long = plain_label(
            tr("Only the first {most} characters are kept.").format(most=number(kind.longest)),
            self,
            "danger",
        )
        self._long.hide()
        self.column.addWidget(self._long)
        self._pause = QTimer(self, singleShot=True, interval=_PAUSE_MS)
        self._pause.timeout.connect(self._apply)
        self._field.textChanged.connect(self._pause.start)

    def show_settings(self, settings: Settings) -> None:
        """Show the text in force, unless another one is being typed."""
        value = getattr(settings, self._name)
        if not self._pause.isActive() and value != self._field.toPlainText()[: self._kind.longest]:
            with QSignalBlocker(self._field):
                cursor = self._field.textCursor()
                cursor.select(cursor.SelectionType.Document)
                cursor.insertText(value)  # unlike setPlainText, it can be undone

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Take the text typed last before it is out of sight."""
        super().hideEvent(event)
        if self._pause.isActive():
            self._apply()

    def _apply(self) -> None:
        self._pause.stop()
        text = self._field.toPlainText()
        self._long.setVisible(len(text) > self._kind.longest)
        self.chosen.emit(text[: self._kind.longest])
