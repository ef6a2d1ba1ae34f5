"""The list itself: mouse, keys, dragging. What is asked for goes out as signals."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QMouseEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QWidget

from app.conversations.delegate import ConversationDelegate
from app.conversations.model import IDS, ConversationModel
from app.conversations.sections import ConversationSection
from app.history import Conversation, Folder
from app.session.conversation_list import ConversationList, shown_title
from app.signals import TypedSignal
from app.widgets.painting import drag_label, more_area
from app.widgets.uniform_list import UniformList
from engine.language import tr, tr_count

_PLAIN = Qt.KeyboardModifier.NoModifier


class ConversationView(UniformList):
    """Conversations to open, several to choose, folders to fold."""

    open_asked = TypedSignal[Conversation]()
    menu_asked = Signal(QPoint)
    """A menu for what is chosen, at a place on the screen."""

    def __init__(self, conversations: ConversationList, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows = ConversationModel(conversations, self)
        self._delegate = ConversationDelegate(self.rows, self)
        self.setModel(self.rows)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName(tr("Conversations"))
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDefaultDropAction(Qt.DropAction.MoveAction)
        self.setDropIndicatorShown(False)
        self._pressed = QPersistentModelIndex()
        self.rows.modelAboutToBeReset.connect(self._note)
        self.rows.modelReset.connect(self._restore)
        self._noted = _Noted()

    # -- what is chosen --------------------------------------------------------------------

    def chosen(self) -> list[Conversation]:
        """The conversations that are selected, from top to bottom, or else the current one."""
        indexes = sorted(self.selectionModel().selectedIndexes(), key=QModelIndex.row)
        indexes = indexes or [self.currentIndex()]
        entries = [self.rows.entry(index) for index in indexes]
        return [entry for entry in entries if isinstance(entry, Conversation)]

    def chosen_folder(self) -> Folder | None:
        """The folder the keyboard is on, if no conversation is chosen."""
        entry = self.rows.entry(self.currentIndex())
        return (
            entry.folder if isinstance(entry, ConversationSection) and not self.chosen() else None
        )

    def show_open(self, conversation_id: int | None) -> None:
        """Mark the conversation that is shown in the window, and bring it into view."""
        if conversation_id == self._delegate.open_id:
            return
        self._delegate.open_id = conversation_id
        self.viewport().update()
        index = self.rows.index_of(conversation_id) if conversation_id is not None else None
        if index is not None and index.isValid():
            self.setCurrentIndex(index)
        else:
            self.selectionModel().clear()

    def neighbour(self, step: int) -> Conversation | None:
        """The conversation after (1) or before (-1) the one shown; the first where none is."""
        here = self.rows.index_of(self._delegate.open_id) if self._delegate.open_id else None
        row = here.row() if here is not None and here.isValid() else -1
        while 0 <= (row := row + step) < self.rows.rowCount():
            entry = self.rows.entry(self.rows.index(row))
            if isinstance(entry, Conversation):
                return entry
        return None

    def rename_current(self) -> None:
        """Let the user write another name for the row the keyboard is on."""
        index = self.currentIndex()
        if self.rows.flags(index) & Qt.ItemFlag.ItemIsEditable:
            self.scrollTo(index)
            self.edit(index)

    def edit_folder(self, folder_id: int) -> None:
        """Let the user write the name of a folder."""
        index = self.rows.folder_index(folder_id)
        if index.isValid():
            self.setCurrentIndex(index)
            self.rename_current()

    # -- keys ------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:  # noqa: N802
        """Enter opens, Left and Right fold; the rest moves about as in any list."""
        if not self.hasFocus():  # what the field of a name leaves over, such as its Enter
            return
        entry = self.rows.entry(self.currentIndex())
        key, plain = event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier == _PLAIN
        if plain and key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._activate(entry)
        elif plain and key in (Qt.Key.Key_Left, Qt.Key.Key_Right):
            self._fold(entry, is_open=key == Qt.Key.Key_Right)
        else:
            super().keyPressEvent(event)

    def _activate(self, entry: ConversationSection | Conversation | None) -> None:
        if isinstance(entry, Conversation):
            self.open_asked.emit(entry)
        elif entry is not None:
            self.rows.set_open(self.currentIndex(), is_open=not entry.is_open)

    def _fold(self, entry: ConversationSection | Conversation | None, *, is_open: bool) -> None:
        """Close or open the folder; from inside, Left goes to the folder."""
        if isinstance(entry, ConversationSection):
            self.rows.set_open(self.currentIndex(), is_open=is_open)
            return
        section = self.rows.section_of(self.currentIndex())
        if section is not None and section.folder is not None and not is_open:
            self.setCurrentIndex(self.rows.folder_index(section.folder.id))

    # -- mouse -----------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The three dots open the menu of their row."""
        index = self.indexAt(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and self._on_more(index, event):
            if not self.selectionModel().isSelected(index):
                self.setCurrentIndex(index)
            corner = more_area(self.visualRect(index)).bottomLeft()
            self.menu_asked.emit(self.viewport().mapToGlobal(corner))
            return
        super().mousePressEvent(event)
        plain = event.button() is Qt.MouseButton.LeftButton and event.modifiers() == _PLAIN
        self._pressed = QPersistentModelIndex(index if plain else QModelIndex())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """Open at a click without keys; with Ctrl or Shift it only chooses."""
        super().mouseReleaseEvent(event)
        index, self._pressed = self._pressed, QPersistentModelIndex()
        if index.isValid() and index == self.indexAt(event.position().toPoint()):
            self._activate(self.rows.entry(index))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:  # noqa: N802
        """The three dots show when they are pointed at."""
        self._delegate.pointer = event.position().toPoint()
        super().mouseMoveEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:  # noqa: N802
        """Open the menu for what is chosen; a press has chosen the row below the mouse."""
        place = event.globalPos()
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            area = self.visualRect(self.currentIndex())
            place = self.viewport().mapToGlobal(area.bottomLeft() + QPoint(24, 0))
        self.menu_asked.emit(place)

    def _on_more(self, index: QModelIndex, event: QMouseEvent) -> bool:
        enabled = bool(self.rows.flags(index) & Qt.ItemFlag.ItemIsEnabled)
        place = more_area(self.visualRect(index))
        return enabled and place.contains(event.position().toPoint())

    # -- dragging --------------------------------------------------------------------------

    def startDrag(self, _actions: Qt.DropAction) -> None:  # noqa: N802
        """Take what is chosen along, as a label with its title or number."""
        chosen = self.chosen()
        if not chosen:
            return
        count = tr_count("{n} conversation", "{n} conversations", len(chosen))
        drag = QDrag(self)
        drag.setMimeData(self.rows.mimeData([self.rows.index_of(each.id) for each in chosen]))
        text = shown_title(chosen[0]) if len(chosen) == 1 else count
        drag.setPixmap(drag_label(text, self.font(), self.devicePixelRatioF()))
        drag.setHotSpot(QPoint(-12, -4))
        drag.exec(Qt.DropAction.MoveAction)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:  # noqa: N802
        """Conversations of this list; files go to the sidebar."""
        if event.mimeData().hasFormat(IDS):
            event.acceptProposedAction()
        else:
            event.ignore()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:  # noqa: N802
        """Show where they would go."""
        self._show_drop(self.rows.section_of(self.indexAt(event.position().toPoint())))
        if self._delegate.drop_section is None or not event.mimeData().hasFormat(IDS):
            event.ignore()
        else:
            event.acceptProposedAction()
        self._scroll_while_dragging(event.position().toPoint())

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:  # noqa: N802
        """They are elsewhere."""
        self._show_drop(None)

    def dropEvent(self, event: QDropEvent) -> None:  # noqa: N802
        """Put conversations into the section dropped on."""
        index = self.indexAt(event.position().toPoint())
        self._show_drop(None)
        if self.rows.dropMimeData(event.mimeData(), Qt.DropAction.MoveAction, -1, -1, index):
            event.acceptProposedAction()
        else:
            event.ignore()

    def _show_drop(self, section: ConversationSection | None) -> None:
        if section is not self._delegate.drop_section:
            self._delegate.drop_section = section
            self.viewport().update()

    def _scroll_while_dragging(self, place: QPoint) -> None:
        bar, margin = self.verticalScrollBar(), 24
        if place.y() < margin:
            bar.setValue(bar.value() - margin // 2)
        elif place.y() > self.viewport().height() - margin:
            bar.setValue(bar.value() + margin // 2)

    # -- when everything is arranged anew ----------------------------------------------------

    def _note(self) -> None:
        entry = self.rows.entry(self.currentIndex())
        folder = entry.folder if isinstance(entry, ConversationSection) else None
        current = entry.id if isinstance(entry, Conversation) else None
        self._noted = _Noted(
            tuple(each.id for each in self.chosen()),
            current,
            folder.id if folder is not None else None,
            self.verticalScrollBar().value(),
        )

    def _restore(self) -> None:
        noted, flag = self._noted, self.selectionModel().SelectionFlag
        self._delegate.drop_section = None
        for each in noted.chosen:
            self.selectionModel().select(self.rows.index_of(each), flag.Select)
        current = self.rows.index_of(noted.current) if noted.current is not None else None
        if noted.folder is not None:
            current = self.rows.folder_index(noted.folder)
            self.selectionModel().select(current, flag.Select)
        if current is not None and current.isValid():
            self.selectionModel().setCurrentIndex(current, flag.NoUpdate)
        self.doItemsLayout()
        self.verticalScrollBar().setValue(noted.scrolled)


@dataclass(frozen=True, slots=True)
class _Noted:
    """State of the view to restore after everything was arranged anew."""

    chosen: tuple[int, ...] = ()
    current: int | None = None
    folder: int | None = None
    scrolled: int = 0
