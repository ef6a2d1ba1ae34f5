"""Every action of the window in one list that is filtered while one types."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QModelIndex, QObject, Qt
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import QDialog, QFrame, QLineEdit, QTreeWidget, QTreeWidgetItem, QWidget

from app.widgets.boxes import vbox
from app.widgets.labels import plain_label
from engine.language import tr

_ACTION = int(Qt.ItemDataRole.UserRole)
_WIDTH = 560
_ROWS = 11
_MOVES = frozenset({Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown})


class CommandPalette(QDialog):
    """Type a part of what you want to do, Enter does it."""

    def __init__(self, actions: Sequence[QAction], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Commands"))
        self.field = QLineEdit(self, placeholderText=tr("What do you want to do?"))
        self.field.setAccessibleName(tr("Search commands"))
        self.list = QTreeWidget(self, columnCount=2)
        self.list.setAccessibleName(tr("Commands"))
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setFrameShape(QFrame.Shape.NoFrame)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setProperty("look", "rows")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.nothing = plain_label("", self, "muted")
        self.nothing.hide()
        vbox(self.field, self.nothing, self.list, to=self, spacing=8, margins=12)
        self._items = [self._item(action) for action in actions]
        self.list.addTopLevelItems(self._items)
        self._size()
        self.field.textChanged.connect(self._filter)
        self.field.installEventFilter(self)
        self.list.itemClicked.connect(lambda item, _: self._run(item))
        self._filter("")

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        """Arrow keys move in the list, Enter takes what is marked."""
        if watched is self.field and isinstance(event, QKeyEvent):
            pressed = event.type() is QEvent.Type.KeyPress
            if pressed and event.key() in _MOVES:
                self.list.keyPressEvent(event)
                return True
            if pressed and event.key() in {Qt.Key.Key_Return, Qt.Key.Key_Enter}:
                self._run(self.list.currentItem())
                return True
        return super().eventFilter(watched, event)

    @staticmethod
    def _item(action: QAction) -> QTreeWidgetItem:
        keys = action.shortcut().toString(QKeySequence.SequenceFormat.NativeText)
        item = QTreeWidgetItem([action.text(), keys])
        item.setData(0, _ACTION, action)
        item.setTextAlignment(1, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        return item

    def _size(self) -> None:
        self.setFixedWidth(_WIDTH)
        keys = self.list.sizeHintForColumn(1) + 16
        self.list.setColumnWidth(0, _WIDTH - 24 - keys - 16)
        self.list.setColumnWidth(1, keys)
        self.list.setFixedHeight(_ROWS * max(self.list.sizeHintForRow(0), 24) + 4)

    def _filter(self, text: str) -> None:
        words = text.casefold().split()
        found = []
        for item in self._items:
            name = item.text(0).casefold()
            item.setHidden(not all(word in name for word in words))
            if not item.isHidden():
                found.append(item)
        self.nothing.setVisible(not found)
        words_said = tr("No command has “{text}” in its name.")
        self.nothing.setText("" if found else words_said.format(text=text.strip()))
        if found:
            self.list.setCurrentItem(found[0])
        else:
            self.list.setCurrentIndex(QModelIndex())

    def _run(self, item: QTreeWidgetItem | None) -> None:
        if item is None or item.isHidden():
            return
        self.accept()
        item.data(0, _ACTION).trigger()
