"""Sections of the list of conversations: pinned, a folder, or a day. No Qt in here."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import IntEnum

from app.history import Conversation, Folder
from app.history.records import EARLIEST
from engine.language import later, tr

_MONTHS = (
    later("January"),
    later("February"),
    later("March"),
    later("April"),
    later("May"),
    later("June"),
    later("July"),
    later("August"),
    later("September"),
    later("October"),
    later("November"),
    later("December"),
)


class SectionKind(IntEnum):
    """Kinds of sections, in the order of the list."""

    PINNED = 0
    FOLDER = 1
    DAY = 2


@dataclass(frozen=True, slots=True, order=True)
class SectionKey:
    """Key of a section; keys sort as their sections are shown."""

    kind: SectionKind
    name: str = ""
    """A folder's name, for sorting."""
    number: int = 0
    """A folder's id; of days: 0 today, 1 yesterday, 2 the week, then counting months back."""


@dataclass(slots=True, eq=False)
class ConversationSection:
    """A heading or a folder, and the conversations under it, newest first."""

    key: SectionKey
    title: str
    folder: Folder | None = None
    is_open: bool = True
    conversations: list[Conversation] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Return the number of rows it takes up, its own included."""
        return 1 + (len(self.conversations) if self.is_open else 0)

    def position(self, conversation: Conversation) -> int:
        """Return where this conversation is, or where it would be."""
        return bisect_left(self.conversations, _newest(conversation), key=_newest)


def _newest(conversation: Conversation) -> tuple[float, int]:
    return -conversation.updated_at, -conversation.id


class Calendar:
    """Tells the days' sections, seen from `today`."""

    def __init__(self, today: date) -> None:
        self.today = today
        self._today, self._yesterday, self._week = (
            _midnight(today - timedelta(days=days)) for days in (0, 1, 6)
        )
        self._month = (1.0, 0.0)  # from, to: nothing yet
        self._month_key = SectionKey(SectionKind.DAY)

    def key(self, when: float) -> SectionKey:
        """The section of a time in seconds since the epoch."""
        if when >= self._week:
            number = 0 if when >= self._today else 1 if when >= self._yesterday else 2
            return SectionKey(SectionKind.DAY, "", number)
        first, end = self._month
        # Asked from new to old: the month is seldom another one.
        if not first <= max(when, EARLIEST) < end:
            self._enter_month(max(when, EARLIEST))
        return self._month_key

    def title(self, key: SectionKey) -> str:
        """Return the title above the section."""
        if key.number < 3:
            return (tr("Today"), tr("Yesterday"), tr("Last 7 days"))[key.number]
        year, month = divmod(self._months(self.today) - (key.number - 3), 12)
        return tr("{month} {year}").format(month=tr(_MONTHS[month]), year=year)

    def _enter_month(self, when: float) -> None:
        day = datetime.fromtimestamp(when).astimezone().date().replace(day=1)
        after = (day + timedelta(days=32)).replace(day=1)
        self._month = (_midnight(day), _midnight(after))
        number = 3 + self._months(self.today) - self._months(day)
        self._month_key = SectionKey(SectionKind.DAY, "", number)

    @staticmethod
    def _months(day: date) -> int:
        return day.year * 12 + day.month - 1


def section_key(
    conversation: Conversation, folders: Mapping[int, Folder], calendar: Calendar
) -> SectionKey:
    """Pinned goes first, then folders; the rest stands under its day."""
    if conversation.pinned:
        return SectionKey(SectionKind.PINNED)
    folder = folders.get(conversation.folder_id) if conversation.folder_id is not None else None
    return folder_key(folder) if folder is not None else calendar.key(conversation.updated_at)


def folder_key(folder: Folder) -> SectionKey:
    """The section of a folder."""
    return SectionKey(SectionKind.FOLDER, folder.name.casefold(), folder.id)


def new_section(
    key: SectionKey, folders: Mapping[int, Folder], calendar: Calendar
) -> ConversationSection:
    """An empty section for `key`."""
    if key.kind is SectionKind.PINNED:
        return ConversationSection(key, tr("Pinned"))
    if key.kind is SectionKind.FOLDER:
        folder = folders[key.number]
        return ConversationSection(key, folder.name, folder)
    return ConversationSection(key, calendar.title(key))


def arranged(
    newest_first: Iterable[Conversation], folders: Mapping[int, Folder], calendar: Calendar
) -> list[ConversationSection]:
    """All sections in order; folders are there even when they are empty."""
    found = {key: new_section(key, folders, calendar) for key in map(folder_key, folders.values())}
    for conversation in newest_first:
        key = section_key(conversation, folders, calendar)
        section = found.get(key)
        if section is None:
            section = found[key] = new_section(key, folders, calendar)
        section.conversations.append(conversation)
    return [found[key] for key in sorted(found)]


def _midnight(day: date) -> float:
    """The local midnight that begins a day, in seconds since the epoch."""
    return datetime(day.year, day.month, day.day).astimezone().timestamp()
