"""All the numbers of one answer, to read or to copy."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from app.chat.messages.answer_texts import answer_table, markdown_table
from app.history import StoredMessage
from app.widgets.boxes import vbox
from app.widgets.terms import explained
from engine.language import tr

_WIDTH = 560
_HIGHEST = 620
_AROUND = 84
"""Height of the dialog without its table."""
_LINE = 30


class AnswerDetails(QDialog):
    """A table of what was measured while an answer was written, and of how it was asked for."""

    rounds_asked = Signal()

    def __init__(self, message: StoredMessage, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Response statistics"))
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._lines = answer_table(message)
        self.table = QTableWidget(len(self._lines), 2, self)
        self.table.setAccessibleName(tr("Response statistics"))
        self.table.setFrameShape(QFrame.Shape.NoFrame)
        self.table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setShowGrid(False)
        self.table.setTabKeyNavigation(False)
        self.table.setWordWrap(False)
        self.table.verticalHeader().hide()
        self.table.verticalHeader().setDefaultSectionSize(_LINE)
        self.table.horizontalHeader().hide()
        for row, (name, value) in enumerate(self._lines):
            term = QTableWidgetItem(name)
            term.setToolTip(explained(name))
            self.table.setItem(row, 0, term)
            item = QTableWidgetItem(value)
            item.setToolTip(value)
            self.table.setItem(row, 1, item)
        header = self.table.horizontalHeader()
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        self.copy_button = buttons.addButton(
            tr("Copy as Markdown"), QDialogButtonBox.ButtonRole.ActionRole
        )
        self.copy_button.clicked.connect(self.copy)
        self.rounds_button = buttons.addButton(
            tr("Show rounds"), QDialogButtonBox.ButtonRole.ActionRole
        )
        self.rounds_button.clicked.connect(self._show_rounds)
        buttons.rejected.connect(self.reject)
        vbox(self.table, buttons, to=self)

    def copy(self) -> None:
        """Copy the table for a forum or a report."""
        QGuiApplication.clipboard().setText(markdown_table(self._lines))
        self.copy_button.setText(tr("Copied"))

    def _show_rounds(self) -> None:
        self.accept()
        self.rounds_asked.emit()

    def open(self) -> None:
        """Open with the height of the table, within limits."""
        self.resize(_WIDTH, min(self.table.rowCount() * _LINE + _AROUND, _HIGHEST))
        super().open()
