"""Under which heading a conversation stands."""

from __future__ import annotations

from datetime import date, datetime

import pytest

from app.conversations.sections import Calendar, SectionKind, arranged
from app.history import Conversation, Folder

TODAY = date(2026, 3, 5)


def at(year: int, month: int, day: int, hour: int = 12, minute: int = 0) -> float:
    return datetime(year, month, day, hour, minute).astimezone().timestamp()


@pytest.mark.parametrize(
    ("when", "title"),
    [
        (at(2026, 3, 5, 0, 0), "Today"),
        (at(2026, 3, 9), "Today"),  # a clock that was wrong
        (at(2026, 3, 4, 23, 59), "Yesterday"),
        (at(2026, 3, 3), "Last 7 days"),
        (at(2026, 2, 27, 0, 0), "Last 7 days"),
        (at(2026, 2, 26, 23, 59), "February 2026"),
        (at(2026, 2, 1, 0, 0), "February 2026"),
        (at(2026, 1, 31, 23, 59), "January 2026"),
        (at(2025, 12, 31, 23, 59), "December 2025"),
        (at(2024, 2, 29), "February 2024"),
        (-5.0, "February 1970"),
        (0.0, "February 1970"),
    ],
)
def test_days_in_words(when: float, title: str) -> None:
    calendar = Calendar(TODAY)
    assert calendar.title(calendar.key(when)) == title


def test_months_do_not_depend_on_what_was_asked_before() -> None:
    calendar = Calendar(TODAY)
    times = [at(2025, month, day) for month in (1, 7, 3, 12) for day in (1, 28)]
    first = [calendar.title(calendar.key(when)) for when in times]
    assert first == [Calendar(TODAY).title(Calendar(TODAY).key(when)) for when in times]
    assert first[0] == "January 2025"


def test_pinned_first_then_folders_by_name_then_days() -> None:
    folders = {1: Folder(1, "zoo"), 2: Folder(2, "Ärger"), 3: Folder(3, "Alpha")}
    conversations = [
        Conversation(5, "now", at(2026, 3, 5)),
        Conversation(4, "in zoo", at(2026, 3, 4), folder_id=1),
        Conversation(3, "pinned, of the zoo", at(2026, 3, 3), folder_id=1, pinned=True),
        Conversation(2, "of a folder that is gone", at(2026, 3, 2), folder_id=9),
        Conversation(1, "old", at(2020, 1, 1)),
    ]
    sections = arranged(conversations, folders, Calendar(TODAY))
    assert [(s.key.kind, s.title, [c.id for c in s.conversations]) for s in sections] == [
        (SectionKind.PINNED, "Pinned", [3]),
        (SectionKind.FOLDER, "Alpha", []),
        (SectionKind.FOLDER, "zoo", [4]),
        (SectionKind.FOLDER, "Ärger", []),
        (SectionKind.DAY, "Today", [5]),
        (SectionKind.DAY, "Last 7 days", [2]),
        (SectionKind.DAY, "January 2020", [1]),
    ]
