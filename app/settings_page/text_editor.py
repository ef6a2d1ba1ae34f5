"""The control for a text: a field that says what is wrong with what is typed."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QLabel, QLineEdit, QPushButton, QWidget

from app.settings.kinds import Word
from app.settings.model import Settings
from app.settings_page.editors import Editor
from app.widgets.file_dialog import file_dialog
from engine.language import tr

_WIDTH = 22
"""Letters "m" that a field has room for."""


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
        self.wrong = QLabel(tr(kind.wrong), self)
        self.wrong.setTextFormat(Qt.TextFormat.PlainText)
        self.wrong.setProperty("look", "danger")
        self.wrong.setWordWrap(True)
        self.wrong.hide()
        self.column.addWidget(self.wrong)
        self._field.textEdited.connect(lambda _text: self._judge())
        self._field.editingFinished.connect(self._apply)
        if kind.folder:
            self._add_button()

    def show_settings(self, settings: Settings) -> None:
        """Show the text in force, unless another one is being typed."""
        value = getattr(settings, self._name)
        if not self._field.hasFocus() or not self._field.isModified():
            self._field.setText(value)
            self.wrong.hide()

    def _add_button(self) -> None:
        button = QPushButton(tr("Choose…"), self)
        button.setAutoDefault(False)
        button.setAccessibleDescription(tr("Choose a folder"))
        button.clicked.connect(lambda _=False: self._choose())
        self.line.addWidget(button)

    def _choose(self) -> None:
        typed = self._field.text().strip()
        folder = Path(typed) if typed else None
        dialog = file_dialog(self.window(), tr("Choose a folder"), folder)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._take)
        dialog.open()

    def _take(self, folder: str) -> None:
        self._field.setText(folder)
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
