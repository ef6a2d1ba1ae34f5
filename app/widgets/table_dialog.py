"""The numbers behind a picture in a real table, which can be copied."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractTableModel,
    QItemSelectionModel,
    QModelIndex,
    QPersistentModelIndex,
    Qt,
)
from PySide6.QtGui import QGuiApplication, QKeySequence, QShortcut
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.widgets.boxes import vbox
from app.widgets.table import Table, as_text
from app.widgets.terms import explained
from engine.language import tr

Index = QModelIndex | QPersistentModelIndex
_WIDTH = 660
_HEIGHT = 480
_SPARE = 8
_MEASURED = 200
"""Rows whose width decides on the columns'."""


class TableModel(QAbstractTableModel):
    """Shows a `Table` to Qt's views."""

    def __init__(self, table: Table, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.table = table

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Return the number of the table's rows; cells have no rows of their own."""
        return 0 if parent.isValid() else len(self.table.rows)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008, N802
        """Return the number of the table's columns."""
        return 0 if parent.isValid() else len(self.table.columns)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return the text of a cell, or what its term means; numbers stand to the right."""
        if role == Qt.ItemDataRole.DisplayRole:
            return self.table.rows[index.row()][index.column()]
        if role == Qt.ItemDataRole.ToolTipRole and not index.column():
            return explained(self.table.rows[index.row()][0])
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column():
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        return None

    def headerData(  # noqa: N802
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> object:
        """The columns' names, above their numbers; rows are not numbered."""
        if role == Qt.ItemDataRole.TextAlignmentRole and section:
            return Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self.table.columns[section]
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.ToolTipRole:
            return explained(self.table.columns[section])
        return None


class TableDialog(QDialog):
    """A table with a button that copies all of it; Ctrl+C copies what is selected."""

    def __init__(self, table: Table, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(table.title)
        self.model = TableModel(table, self)
        self.view = QTableView(self, showGrid=False)
        self.view.setModel(self.model)
        self.view.setAccessibleName(table.title)
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setAlternatingRowColors(True)
        self.view.setTabKeyNavigation(False)
        self.view.verticalHeader().hide()
        header = self.view.horizontalHeader()
        header.setResizeContentsPrecision(_MEASURED)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.button(QDialogButtonBox.StandardButton.Close).setText(tr("Close"))
        copy = buttons.addButton(tr("Copy all"), QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: _to_clipboard(table))
        buttons.rejected.connect(self.close)
        layout = vbox(self.view, buttons, to=self)
        QShortcut(QKeySequence.StandardKey.Copy, self.view, self.copy_selected)
        keep = QItemSelectionModel.SelectionFlag.NoUpdate
        self.view.selectionModel().setCurrentIndex(self.model.index(0, 0), keep)
        self.view.setFocus()
        self.resize(self._wide_enough(layout), _HEIGHT)

    def _wide_enough(self, layout: QVBoxLayout) -> int:
        """Pixels that show every column, as far as the screen has them."""
        self.view.ensurePolished()
        header = self.view.horizontalHeader()
        header.ensurePolished()
        sizes = (
            max(header.sectionSizeHint(column), self.view.sizeHintForColumn(column))
            for column in range(header.count())
        )
        beside = self.view.verticalScrollBar().sizeHint().width() + 2 * self.view.frameWidth()
        margins = layout.contentsMargins()
        wanted = sum(sizes) + beside + margins.left() + margins.right() + _SPARE
        return min(max(wanted, _WIDTH), round(0.9 * self.screen().availableSize().width()))

    def copy_selected(self) -> None:
        """Put the selected rows on the clipboard, all where none is."""
        table = self.model.table
        chosen = sorted(index.row() for index in self.view.selectionModel().selectedRows())
        rows = tuple(table.rows[row] for row in chosen) if chosen else table.rows
        _to_clipboard(Table(table.title, table.columns, rows))


def _to_clipboard(table: Table) -> None:
    QGuiApplication.clipboard().setText(as_text(table))
