"""Words around a hit in the room there is."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFont, QTextCharFormat, QTextLayout

from app.conversations.hits import rows_of
from app.conversations.snippet import Snippet, laid_out
from app.history import Conversation, Hit


def found(text: str, word: str) -> Snippet:
    start = text.index(word)
    return Snippet.of(text, ((start, start + len(word)),))


def marked(layout: QTextLayout) -> list[str]:
    units = layout.text().encode("utf-16-le")
    return [
        units[2 * each.start : 2 * (each.start + each.length)].decode("utf-16-le")
        for each in layout.formats()
    ]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("a word in the middle", "word"),
        ("before " * 40 + "needle" + " after" * 40, "needle"),
        ("x" * 300 + "needle" + "y" * 300, "needle"),
        ("line\nbreaks\tand needle\n" * 9, "needle"),
        ("\U0001f389\U0001f382 party \U0001f388 needle \U0001f388" * 5, "needle"),
        ("מילים " * 30 + "מחט" + " ועוד מילים" * 30, "מחט"),
        ("机器学习模型的推理加速方法讨论" * 8 + "推测" + "解码" * 20, "推测"),
        ("Donaudampfschifffahrtsgesellschaft " * 6 + "Größe", "Größe"),
    ],
)
@pytest.mark.parametrize(("width", "lines"), [(180.0, 2), (420.0, 1)])
@pytest.mark.usefixtures("qapp")
def test_the_first_hit_is_shown_and_marked(text: str, word: str, width: float, lines: int) -> None:
    layout = laid_out(found(text, word), QFont(), width, lines, QTextCharFormat())
    assert marked(layout)[0] == word
    assert 1 <= layout.lineCount() <= lines
    last = layout.lineAt(layout.lineCount() - 1)
    assert last.textStart() + last.textLength() == len(layout.text().encode("utf-16-le")) // 2
    if len(text) > 200:
        assert layout.text().startswith("…") or layout.text().endswith("…")


@pytest.mark.usefixtures("qapp")
def test_nothing_is_added_where_there_is_room() -> None:
    layout = laid_out(Snippet("short"), QFont(), 300.0, 2, QTextCharFormat())
    assert layout.text() == "short"


def test_places_are_grouped_and_many_are_folded() -> None:
    one, two = Conversation(1, "One", 0.0), Conversation(2, "Two", 0.0)
    title = Hit(one, None, "One", ((0, 3),))
    places = [Hit(one, number, f"place {number}", ()) for number in range(6)]
    other = Hit(two, 9, "elsewhere", ())
    rows = rows_of([places[0], other, *places[1:], title])
    assert [(each.hit.conversation.id, each.is_title, each.more) for each in rows] == [
        (1, True, 0),
        *[(1, False, 0)] * 3,
        (1, False, 3),
        (2, True, 0),
        (2, False, 0),
    ]
    assert rows[0].hit is title
    assert len(rows_of([title, *places[:4]])) == 5, "a row is not folded for one place only"
    assert [each.more for each in rows_of([title, *places], unfolded=1)] == [0] * 7
