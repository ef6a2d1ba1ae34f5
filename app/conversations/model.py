"""The rows of the list: headings, folders and conversations, kept up to date row by row."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import date, datetime
from itertools import accumulate

from PySide6.QtCore import (
    QAbstractListModel,
    QMimeData,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    Qt,
    QTimer,
)

from app.conversations.sections import (
    Calendar,
    ConversationSection,
    SectionKey,
    SectionKind,
    arranged,
    folder_key,
    new_section,
    section_key,
)
from app.history import Conversation, Folder
from app.session.conversation_list import ConversationList, shown_title
from engine.language import tr, tr_count

IDS = "application/x-duotail-conversations"
"""The ids of conversations being dragged, as decimal numbers between blanks."""

Index = QModelIndex | QPersistentModelIndex
_MINUTE_MS = 60_000
_ROOT = QModelIndex()


class ConversationModel(QAbstractListModel):
    """A flat list: sections one after the other, each a row of its own before its conversations.

    Flat, because a row is then found by counting sections only, and a change costs one row.
    """

    def __init__(self, conversations: ConversationList, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._list = conversations
        self._folders: dict[int, Folder] = {}
        self._calendar = Calendar(_today())
        self._sections: list[ConversationSection] = []
        self._starts: list[int] = []
        self._held: dict[int, tuple[ConversationSection, Conversation]] = {}
        self._closed: set[int] = set()
        self._clock = QTimer(self, timerType=Qt.TimerType.VeryCoarseTimer, interval=_MINUTE_MS)
        self._clock.timeout.connect(self._look_at_the_date)
        self._clock.start()
        conversations.refreshed.connect(self.rebuild)
        conversations.folder_changed.connect(self._folder_changed)
        conversations.folder_removed.connect(lambda _: self.rebuild())
        conversations.changed.connect(self._changed)
        conversations.removed.connect(self._removed)
        self.rebuild()

    # -- rows ------------------------------------------------------------------------------

    def entry(self, index: Index) -> ConversationSection | Conversation | None:
        """Return the entry of a row; None for no row."""
        if not index.isValid():
            return None
        section, position = self._find(index.row())
        return section if position < 0 else section.conversations[position]

    def section_of(self, index: Index) -> ConversationSection | None:
        """The section that a row belongs to."""
        return self._find(index.row())[0] if index.isValid() else None

    def index_of(self, conversation_id: int) -> QModelIndex:
        """The row of a conversation; none if its folder is closed."""
        if conversation_id not in self._held:
            return QModelIndex()
        section, held = self._held[conversation_id]
        if not section.is_open:
            return QModelIndex()
        return self.index(self._start(section) + 1 + section.position(held))

    def folder_index(self, folder_id: int) -> QModelIndex:
        """The row of a folder."""
        for section, start in zip(self._sections, self._starts, strict=False):
            if section.folder is not None and section.folder.id == folder_id:
                return self.index(start)
        return QModelIndex()

    def set_open(self, index: Index, *, is_open: bool) -> None:
        """Show or hide what is in a folder."""
        section = self.entry(index)
        if (
            not isinstance(section, ConversationSection)
            or section.folder is None
            or section.is_open == is_open
        ):
            return
        (self._closed.discard if is_open else self._closed.add)(section.folder.id)
        first, count = index.row() + 1, len(section.conversations)
        if count and is_open:
            self.beginInsertRows(_ROOT, first, first + count - 1)
        elif count:
            self.beginRemoveRows(_ROOT, first, first + count - 1)
        section.is_open = is_open
        self._count()
        if count and is_open:
            self.endInsertRows()
        elif count:
            self.endRemoveRows()
        self._repaint(section)

    def rebuild(self) -> None:
        """Arrange everything anew."""
        self.beginResetModel()
        self._calendar = Calendar(_today())
        self._folders = {each.id: each for each in self._list.folders()}
        self._closed &= self._folders.keys()
        self._sections = arranged(self._list.newest_first(), self._folders, self._calendar)
        self._held = {}
        for section in self._sections:
            section.is_open = section.folder is None or section.folder.id not in self._closed
            self._held.update({each.id: (section, each) for each in section.conversations})
        self._count()
        self.endResetModel()

    # -- what Qt asks ----------------------------------------------------------------------

    def rowCount(self, parent: Index = _ROOT) -> int:  # noqa: N802
        """Rows in all; none below a row."""
        return 0 if parent.isValid() or not self._starts else self._starts[-1]

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The title, and what screen readers say."""
        entry = self.entry(index)
        if entry is None:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            return entry.title if isinstance(entry, ConversationSection) else shown_title(entry)
        if role == Qt.ItemDataRole.EditRole:
            return entry.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return _spoken(entry) if isinstance(entry, ConversationSection) else shown_title(entry)
        return None

    def setData(  # noqa: N802
        self, index: Index, value: object, role: int = Qt.ItemDataRole.EditRole
    ) -> bool:
        """Rename a conversation or a folder."""
        entry = self.entry(index)
        if role != Qt.ItemDataRole.EditRole or entry is None:
            return False
        if isinstance(entry, Conversation):
            self._list.rename(entry.id, str(value))
        elif entry.folder is not None:
            self._list.rename_folder(entry.folder.id, str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Headings can neither be chosen nor reached."""
        entry = self.entry(index)
        if entry is None or (isinstance(entry, ConversationSection) and entry.folder is None):
            return Qt.ItemFlag.NoItemFlags
        flags = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        flags |= Qt.ItemFlag.ItemIsEditable | Qt.ItemFlag.ItemNeverHasChildren
        if isinstance(entry, Conversation):
            flags |= Qt.ItemFlag.ItemIsDragEnabled
        return flags

    def mimeTypes(self) -> list[str]:  # noqa: N802
        """Return the type of what can be dropped on a row."""
        return [IDS]

    def mimeData(self, indexes: Sequence[QModelIndex]) -> QMimeData:  # noqa: N802
        """The conversations being dragged."""
        entries = [self.entry(index) for index in indexes]
        ids = [str(entry.id) for entry in entries if isinstance(entry, Conversation)]
        data = QMimeData()
        data.setData(IDS, " ".join(ids).encode())
        return data

    def supportedDropActions(self) -> Qt.DropAction:  # noqa: N802
        """Conversations only move."""
        return Qt.DropAction.MoveAction

    def dropMimeData(  # noqa: N802
        self, data: QMimeData, _action: Qt.DropAction, _row: int, _column: int, parent: Index
    ) -> bool:
        """Put conversations into the folder, among the pinned, or out of both, as the row says."""
        section = self.section_of(parent)
        if section is None or not data.hasFormat(IDS):
            return False
        ids = [int(each) for each in bytes(data.data(IDS).data()).decode().split()]
        pinned = section.key.kind is SectionKind.PINNED
        self._list.pin(ids, pinned=pinned)
        if not pinned:
            self._list.move(ids, section.folder.id if section.folder else None)
        return True

    # -- one conversation changed ----------------------------------------------------------

    def _changed(self, conversation: Conversation) -> None:
        key = section_key(conversation, self._folders, self._calendar)
        held = self._held.get(conversation.id)
        if held is None:
            self._insert(self._ensure(key), conversation)
        elif held[0].key == key:
            self._shift(held[0], held[1], conversation)
        else:
            target = self._ensure(key)
            self._transfer(held[0], held[1], target, conversation)
            self._drop_if_empty(held[0])

    def _removed(self, ids: Sequence[int]) -> None:
        if len(ids) > len(self._held) // 4:
            self.rebuild()
            return
        for conversation_id in ids:
            section, held = self._held[conversation_id]
            self._take(section, held)
            self._drop_if_empty(section)

    def _insert(self, section: ConversationSection, conversation: Conversation) -> None:
        position = section.position(conversation)
        row = self._start(section) + 1 + position
        if section.is_open:
            self.beginInsertRows(_ROOT, row, row)
        section.conversations.insert(position, conversation)
        self._held[conversation.id] = (section, conversation)
        self._count()
        if section.is_open:
            self.endInsertRows()
        self._repaint(section)

    def _take(self, section: ConversationSection, held: Conversation) -> None:
        position = section.position(held)
        row = self._start(section) + 1 + position
        if section.is_open:
            self.beginRemoveRows(_ROOT, row, row)
        del section.conversations[position]
        del self._held[held.id]
        self._count()
        if section.is_open:
            self.endRemoveRows()
        self._repaint(section)

    def _shift(self, section: ConversationSection, held: Conversation, now: Conversation) -> None:
        """Move a conversation to its place in the same section."""
        start = self._start(section) + 1
        before, after = section.position(held), section.position(now)
        if before < after:
            after -= 1  # it was counted itself
        moves = before != after and section.is_open
        if moves:
            to = start + after + (after > before)
            self.beginMoveRows(_ROOT, start + before, start + before, _ROOT, to)
        del section.conversations[before]
        section.conversations.insert(after, now)
        self._held[now.id] = (section, now)
        if moves:
            self.endMoveRows()
        if section.is_open:
            place = self.index(start + after)
            self.dataChanged.emit(place, place)

    def _transfer(
        self,
        source: ConversationSection,
        held: Conversation,
        target: ConversationSection,
        now: Conversation,
    ) -> None:
        """Move to another section; the row stays selected where both sections show their rows."""
        if not (source.is_open and target.is_open):
            self._take(source, held)
            self._insert(target, now)
            return
        before, after = source.position(held), target.position(now)
        row = self._start(source) + 1 + before
        self.beginMoveRows(_ROOT, row, row, _ROOT, self._start(target) + 1 + after)
        del source.conversations[before]
        target.conversations.insert(after, now)
        self._held[now.id] = (target, now)
        self._count()
        self.endMoveRows()
        self._repaint(source)
        self._repaint(target)

    # -- sections --------------------------------------------------------------------------

    def _folder_changed(self, folder: Folder) -> None:
        """Rename without arranging anew: the field with the name is still open."""
        self._folders[folder.id] = folder
        key = folder_key(folder)
        held = [each for each in self._sections if each.folder and each.folder.id == folder.id]
        if not held:
            self._ensure(key)
            return
        section = held[0]
        before = self._sections.index(section)
        after = bisect_right([each.key for each in self._sections if each is not section], key)
        first, to = self._starts[before], self._starts[after + (after > before)]
        if before != after:
            self.beginMoveRows(_ROOT, first, first + section.rows - 1, _ROOT, to)
            self._sections.insert(after, self._sections.pop(before))
        section.key, section.title, section.folder = key, folder.name, folder
        self._count()
        if before != after:
            self.endMoveRows()
        self._repaint(section)

    def _ensure(self, key: SectionKey) -> ConversationSection:
        """The section for `key`, with its heading shown."""
        place = bisect_right([each.key for each in self._sections], key)
        if place and self._sections[place - 1].key == key:
            return self._sections[place - 1]
        section = new_section(key, self._folders, self._calendar)
        row = self._starts[place] if self._starts else 0
        self.beginInsertRows(_ROOT, row, row)
        self._sections.insert(place, section)
        self._count()
        self.endInsertRows()
        return section

    def _drop_if_empty(self, section: ConversationSection) -> None:
        if section.conversations or section.folder is not None:
            return
        row = self._start(section)
        self.beginRemoveRows(_ROOT, row, row)
        self._sections.remove(section)
        self._count()
        self.endRemoveRows()

    def _count(self) -> None:
        """Note the first row of each section, and after the last one how many there are."""
        self._starts = list(accumulate((each.rows for each in self._sections), initial=0))

    def _start(self, section: ConversationSection) -> int:
        return self._starts[self._sections.index(section)]

    def _find(self, row: int) -> tuple[ConversationSection, int]:
        """Section and position in it; -1 is its own row."""
        place = bisect_right(self._starts, row) - 1
        return self._sections[place], row - self._starts[place] - 1

    def _repaint(self, section: ConversationSection) -> None:
        row = self.index(self._start(section))
        self.dataChanged.emit(row, row)

    def _look_at_the_date(self) -> None:
        if self._calendar.today != _today():
            self.rebuild()


def _today() -> date:
    return datetime.now().astimezone().date()


def _spoken(section: ConversationSection) -> str:
    if section.folder is None:
        return section.title
    state = tr("open") if section.is_open else tr("closed")
    count = tr_count("{n} conversation", "{n} conversations", len(section.conversations))
    return tr("Folder {name}, {state}, {count}").format(
        name=section.title, state=state, count=count
    )
