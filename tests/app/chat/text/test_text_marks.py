"""Tint, refused text, marks, search hits and the place under the pointer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QPointF, QRectF
from PySide6.QtGui import QHelpEvent, QImage
from PySide6.QtWidgets import QApplication, QToolTip, QWidget
from pytestqt.qtbot import QtBot

from app.chat.text.line_boxes import BlockLines
from app.chat.text.text_view import TextView
from app.chat.text.tint import Marks
from app.theme.theme import Theme, ThemeChoice
from engine.events import Origin, TokenSpan

TEXT = "Plain **bold** words.\n\n```py\nx = 1\n```\n\n<think>\nhidden words\n</think>\n\nThe end."


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> Iterator[TextView]:
    theme.apply(ThemeChoice.LIGHT)
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(520, 400)
    host.show()
    result = TextView("Answer", host)
    result.resize(500, 100)
    result.show_markdown(TEXT)
    result.show()
    yield result
    host.hide()


def _spans(*drafted: tuple[int, int]) -> list[TokenSpan]:
    spans, at = [], 0
    for start, end in drafted:
        spans.append(TokenSpan(1, at, start, Origin.TARGET))
        spans.append(TokenSpan(2, start, end, Origin.DRAFTED))
        at = end
    return spans


def _picture(view: TextView) -> QImage:
    return view.grab().toImage()


def _differs(before: QImage, after: QImage) -> QRectF:
    """The smallest box around what changed."""
    points = [
        (x, y)
        for y in range(before.height())
        for x in range(before.width())
        if before.pixel(x, y) != after.pixel(x, y)
    ]
    if not points:
        return QRectF()
    xs, ys = [x for x, _ in points], [y for _, y in points]
    return QRectF(min(xs), min(ys), max(xs) - min(xs) + 1, max(ys) - min(ys) + 1)


def test_drafted_text_is_underlined_where_it_stands(view: TextView) -> None:
    before = _picture(view)
    start = TEXT.index("bold")
    view.set_tint(_spans((start, start + 4)))
    changed = _differs(before, _picture(view))
    word = view.source_rect(start, start + 4)
    assert word is not None
    assert abs(changed.left() - word.left()) < 2
    assert abs(changed.width() - word.width()) < 3
    assert changed.bottom() <= word.bottom() + 1
    assert changed.height() < 4
    view.set_tint(None)
    assert _picture(view) == before


def test_nothing_moves_for_tint_marks_or_refused_text(view: TextView) -> None:
    touched: list[int] = []
    view.document().contentsChange.connect(lambda at, _gone, _new: touched.append(at))
    height = view.height()
    colours = view.document().findBlock(view.writer.regions[0].first).layout().formats()
    view.set_tint(_spans((0, 9), (12, 30)))
    view.add_ghost(6, "other words")
    view.mark_source(3, 40)
    view.highlight_words(["words"])
    _picture(view)
    assert (touched, view.height()) == ([], height)
    assert view.document().findBlock(view.writer.regions[0].first).layout().formats() == colours


def test_refused_text_is_shown_and_told(view: TextView, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _picture(view)
    view.add_ghost(TEXT.index("words"), "thoughts")
    changed = _differs(before, _picture(view))
    word = view.source_rect(TEXT.index("words"), TEXT.index("words") + 5)
    assert word is not None
    assert abs(changed.left() - word.left()) < 3
    assert view.refused_at(QPointF(word.left() + 1, word.top() + 4)) == "thoughts"
    told: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, words, _widget: told.append(words))
    for x in (word.left() + 1, word.right() + 400):
        at = QPointF(x, word.top() + 4).toPoint()
        asked = QHelpEvent(QEvent.Type.ToolTip, at, view.viewport().mapToGlobal(at))
        QApplication.sendEvent(view.viewport(), asked)
    assert told == ["Drafted and rejected: thoughts"]
    view.clear_ghosts()
    assert _picture(view) == before


def test_refused_text_without_room_is_only_a_caret(view: TextView) -> None:
    before = _picture(view)
    view.add_ghost(TEXT.index("words"), "much " * 60)
    assert _differs(before, _picture(view)).width() <= 3


def test_drafted_stretches_that_touch_are_one() -> None:
    marks = Marks()
    marks.set_tint(_spans((2, 4)))
    marks.add_tint([TokenSpan(3, 4, 9, Origin.DRAFTED), TokenSpan(4, 9, 9, Origin.DRAFTED)])
    assert list(marks.drafted(0, 100)) == [(2, 9)]
    assert list(marks.drafted(3, 5)) == [(3, 5)]
    assert list(marks.drafted(9, 12)) == []


def test_found_words_are_marked_in_any_case_and_spelled_as_they_are(view: TextView) -> None:
    view.show_markdown("\U0001f600 Some WORD, a word.* and words.\n\n- Other w.rd")
    marks = view.marks
    view.highlight_words(["word", "", "w.rd"])
    first, last = view.document().begin(), view.document().lastBlock()
    assert list(marks.hits(first)) == [(8, 12), (16, 20), (27, 31)]
    assert list(marks.hits(last)) == [(6, 10)]
    hit = view.first_hit()
    assert hit is not None
    assert hit.left() > 40
    view.highlight_words(["absent"])
    assert view.first_hit() is None
    view.highlight_words([])
    assert not marks.any


def test_closed_thoughts_are_not_searched(view: TextView) -> None:
    view.highlight_words(["hidden"])
    assert view.first_hit() is None


def test_the_place_under_the_pointer(view: TextView, qtbot: QtBot) -> None:
    for word in ("Plain", "bold", "x = 1", "end"):
        start = TEXT.index(word)
        box = view.source_rect(start, start + len(word))
        assert box is not None
        assert view.source_at(QPointF(box.left() + 1, box.center().y())) == start
    assert view.source_at(QPointF(490, 5)) == -1
    told: list[int] = []
    view.hovered.connect(told.append)
    box = view.source_rect(TEXT.index("bold"), TEXT.index("bold") + 4)
    assert box is not None
    for step in range(6):
        point = QPointF(box.left() + 1 + step % 2, box.center().y())
        qtbot.mouseMove(view.viewport(), point.toPoint())
    qtbot.waitUntil(lambda: told == [TEXT.index("bold")])
    QApplication.sendEvent(view, QEvent(QEvent.Type.Leave))
    assert told[-1] == -1


def test_boxes_follow_lines_and_directions(view: TextView) -> None:
    view.show_markdown("word " * 60 + "\n\nשלום abc שלום")
    lines = BlockLines(view.document().begin())
    assert len(list(lines.rects(0, 290))) > 2
    mixed = BlockLines(view.document().lastBlock())
    shalom, last, a, c = (next(mixed.rects(at, at + 1)) for at in (0, 3, 5, 7))
    assert shalom.left() > last.left(), "Hebrew runs to the left"
    assert last.left() > c.left() > a.left(), "Latin runs to the right within it"
    assert sum(box.width() for box in mixed.rects(0, 13)) > 70
