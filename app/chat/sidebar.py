"""The list of conversations: new, search, open, rename, delete."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from PySide6.QtCore import QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.history import Conversation
from app.theme.icons import IconButton, icon
from app.theme.theme import current

_ROLE = int(Qt.ItemDataRole.UserRole)
_SEARCH_DELAY_MS = 120


class _List(QListWidget):
    """Items can be renamed with F2 and deleted with Delete."""

    delete_asked = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        if event.key() == Qt.Key.Key_Delete:
            self.delete_asked.emit()
        else:
            super().keyPressEvent(event)


class Sidebar(QWidget):
    """The left area of the window."""

    new_asked = Signal()
    opened = Signal(object)
    renamed = Signal(object, str)
    delete_asked = Signal(object)
    searched = Signal(str)
    theme_asked = Signal()
    shortcuts_asked = Signal()
    about_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setProperty("look", "sidebar")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setMinimumWidth(210)
        self._current: int | None = None
        self.new_button = QPushButton("New chat", self)
        self.new_button.setToolTip("Start a new conversation (Ctrl+N)")
        self.new_button.setCursor(Qt.CursorShape.PointingHandCursor)
        self.new_button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.new_button.clicked.connect(self.new_asked)
        self.search = QLineEdit(self)
        self.search.setPlaceholderText("Search")
        self.search.setAccessibleName("Search conversations")
        self.search.setToolTip("Search titles and messages (Ctrl+K)")
        self.search.setClearButtonEnabled(True)
        self._search_icon = self.search.addAction(
            icon("search", current().muted), QLineEdit.ActionPosition.LeadingPosition
        )
        self.list = _List(self)
        self.list.setAccessibleName("Conversations")
        self.list.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.list.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.list.setEditTriggers(QListWidget.EditTrigger.EditKeyPressed)
        self._empty = QLabel(self)
        self._empty.setProperty("look", "muted")
        self._empty.setWordWrap(True)
        self._empty.setContentsMargins(8, 4, 8, 4)
        self.theme_button = IconButton("contrast", "Light, dark or as the system", self)
        shortcuts = IconButton("help", "Keyboard shortcuts", self, shortcut="F1")
        about = IconButton("info", "About Duotail", self)
        self.theme_button.clicked.connect(self.theme_asked)
        shortcuts.clicked.connect(self.shortcuts_asked)
        about.clicked.connect(self.about_asked)
        self._arrange(shortcuts, about)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(_SEARCH_DELAY_MS)
        self._timer.timeout.connect(lambda: self.searched.emit(self.search.text()))
        self.search.textChanged.connect(lambda _: self._timer.start())
        self.list.itemClicked.connect(self._open)
        self.list.itemActivated.connect(self._open)
        self.list.itemChanged.connect(self._renamed)
        self.list.delete_asked.connect(self._delete)
        self.list.customContextMenuRequested.connect(self._menu)

    def _arrange(self, *tools: QWidget) -> None:
        mark = QLabel(self)
        mark.setPixmap(icon("duotail", current().accent).pixmap(22, 22))
        self._mark = mark
        name = QLabel("Duotail", self)
        name.setProperty("look", "title")
        head = QHBoxLayout()
        head.setContentsMargins(8, 2, 0, 6)
        head.setSpacing(8)
        head.addWidget(mark)
        head.addWidget(name)
        head.addStretch(1)
        foot = QHBoxLayout()
        foot.setContentsMargins(0, 0, 0, 0)
        foot.setSpacing(2)
        foot.addWidget(self.theme_button)
        for tool in tools:
            foot.addWidget(tool)
        foot.addStretch(1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 12, 12, 10)
        layout.setSpacing(8)
        layout.addLayout(head)
        layout.addWidget(self.new_button)
        layout.addWidget(self.search)
        layout.addSpacing(4)
        layout.addWidget(self._empty)
        layout.addWidget(self.list, 1)
        layout.addLayout(foot)

    def show_conversations(self, conversations: Sequence[Conversation]) -> None:
        """List these, grouped by day."""
        self.list.blockSignals(True)
        self.list.clear()
        group = ""
        for conversation in conversations:
            name = day_words(conversation.updated_at)
            if name != group:
                group = name
                self._add_group(name)
            item = QListWidgetItem(conversation.title or "New chat")
            item.setData(_ROLE, conversation)
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            item.setToolTip(conversation.title)
            self.list.addItem(item)
            if conversation.id == self._current:
                self.list.setCurrentItem(item)
        self.list.blockSignals(False)
        searching = bool(self.search.text().strip())
        self._empty.setText("Nothing found." if searching else "Your conversations appear here.")
        self._empty.setVisible(not conversations)

    def select(self, conversation: Conversation | None) -> None:
        """Mark the conversation that is open."""
        self._current = conversation.id if conversation else None
        self.list.blockSignals(True)
        self.list.setCurrentRow(-1)
        for row in range(self.list.count()):
            held = self.list.item(row).data(_ROLE)
            if held is not None and held.id == self._current:
                self.list.setCurrentRow(row)
        self.list.blockSignals(False)

    def recolour(self) -> None:
        """Draw icons in the theme's colours."""
        tokens = current()
        self._search_icon.setIcon(icon("search", tokens.muted))
        self._mark.setPixmap(icon("duotail", tokens.accent).pixmap(22, 22))
        self.new_button.setIcon(icon("plus", tokens.text))

    def _add_group(self, name: str) -> None:
        item = QListWidgetItem(name)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        font = self.list.font()
        font.setPointSizeF(font.pointSizeF() - 1)
        item.setFont(font)
        self.list.addItem(item)

    def _open(self, item: QListWidgetItem) -> None:
        conversation = item.data(_ROLE)
        if conversation is not None:
            self.opened.emit(conversation)

    def _renamed(self, item: QListWidgetItem) -> None:
        conversation = item.data(_ROLE)
        if conversation is not None:
            title = item.text()
            # The list is filled anew by the answer: not while the editor still holds the item.
            QTimer.singleShot(0, self, lambda: self.renamed.emit(conversation, title))

    def _delete(self) -> None:
        if self.list.currentRow() < 0:
            return
        conversation = self.list.currentItem().data(_ROLE)
        if conversation is not None:
            self.delete_asked.emit(conversation)

    def _menu(self, place: QPoint) -> None:
        item = self.list.itemAt(place)
        if item is None or item.data(_ROLE) is None:
            return
        tokens = current()
        menu = QMenu(self)
        menu.addAction(icon("pencil", tokens.muted), "Rename", lambda: self.list.editItem(item))
        menu.addAction(
            icon("trash", tokens.muted), "Delete", lambda: self.delete_asked.emit(item.data(_ROLE))
        )
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.list.viewport().mapToGlobal(place))


def day_words(when: float) -> str:
    """The group that a time (seconds since the epoch) belongs to, seen from today."""
    day = datetime.fromtimestamp(when).astimezone().date()
    days = (datetime.now().astimezone().date() - day).days
    if days <= 0:
        return "Today"
    if days == 1:
        return "Yesterday"
    return "Last 7 days" if days < 7 else day.strftime("%B %Y")
