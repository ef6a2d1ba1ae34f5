"""Thoughts in an answer: closed, opened, timed, copied and mapped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from app.chat.text import thought_view
from app.chat.text.selection import selected_text
from app.chat.text.text_view import TextView
from app.chat.text.thought_view import ThoughtView
from app.theme.theme import Theme, ThemeChoice

TEXT = "<think>\nFirst **this**, then that.\n</think>\n\nThe answer."


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    result = Clock()
    monkeypatch.setattr(thought_view, "time", result)
    return result


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> Iterator[TextView]:
    theme.apply(ThemeChoice.LIGHT)
    host = QWidget()
    qtbot.addWidget(host)
    host.resize(520, 400)
    host.show()
    result = TextView("Answer", host)
    result.resize(500, 100)
    result.show()
    yield result
    host.hide()


def _thought(view: TextView) -> ThoughtView:
    (found,) = view.findChildren(ThoughtView)
    return found


def _everything(view: TextView) -> str:
    cursor = QTextCursor(view.document())
    cursor.select(QTextCursor.SelectionType.Document)
    return selected_text(cursor)


def test_the_line_above_a_thought_lies_whole_within_it(view: TextView) -> None:
    """Its left end was cut off: square corners, where the pointer was over it."""
    view.reopen(TEXT)
    thought = _thought(view)
    for opened in (False, True):
        thought.set_opened(opened)
        assert thought.rect().contains(thought.header.geometry())


def test_a_thought_is_closed_and_not_copied(view: TextView) -> None:
    view.show_markdown(TEXT)
    assert _everything(view).strip() == "The answer."
    assert not _thought(view).text.isVisible()
    assert _thought(view).heading() == "Thoughts"
    assert view.raw_text == TEXT


def test_it_opens_by_mouse_and_keyboard_and_makes_room(view: TextView, qtbot: QtBot) -> None:
    view.show_markdown(TEXT)
    thought, closed = _thought(view), view.height()
    qtbot.mouseClick(thought.header, Qt.MouseButton.LeftButton)
    assert thought.text.toPlainText() == "First this, then that."
    assert view.height() > closed + 20
    answer = view.source_rect(TEXT.index("The"), TEXT.index("The") + 3)
    assert answer is not None
    assert answer.top() >= thought.geometry().bottom()
    thought.header.setFocus()
    qtbot.keyClick(thought.header, Qt.Key.Key_Space)
    assert not thought.opened
    assert view.height() == closed


def test_it_is_timed_while_it_is_written(view: TextView, clock: Clock) -> None:
    view.append("<thi")
    assert view.thoughts == 0
    view.append("nk>Hm")
    thought = _thought(view)
    assert thought.heading().startswith("Thinking")
    clock.now += 3
    assert thought.heading().endswith("3 s")
    clock.now += 1
    view.append("m.</think>\nYes.")
    clock.now += 10
    assert thought.heading() == "Thought for 4 s"
    view.finish()
    assert thought.heading() == "Thought for 4 s"


def test_all_thoughts_open_and_close_together(view: TextView) -> None:
    view.show_markdown(TEXT + "\n\n<think>Another one.</think>\n\nMore.")
    for open_ in (True, False):
        view.set_thoughts_open(open_=open_)
        assert [thought.opened for thought in view._thoughts] == [open_] * 2


def test_long_thoughts_are_timed_in_minutes(view: TextView, clock: Clock) -> None:
    view.append("<think>Hm")
    clock.now += 75
    view.append(".</think>\nYes.")
    assert _thought(view).heading() == "Thought for 1 min 15 s"


def test_an_opened_thought_grows_while_it_is_written(view: TextView) -> None:
    view.set_thoughts_open(open_=True)
    view.append("<think>One. ")
    height = view.height()
    view.append("\n\n- a\n- b\n")
    assert view.height() > height
    assert _thought(view).text.toPlainText().endswith("b")


def test_an_answer_that_ends_in_a_thought(view: TextView) -> None:
    view.append("<think>Not to the")
    view.finish()
    _thought(view).set_opened(True)
    assert _thought(view).text.toPlainText() == "Not to the"
    assert not _thought(view).heading().startswith("Thinking")


def test_a_thought_that_was_never_opened(view: TextView) -> None:
    view.append("I think so.\n\n1. one\n")
    view.append("</think>\n\nYes.")
    view.finish()
    assert _everything(view).strip() == "Yes."
    _thought(view).set_opened(True)
    assert "one" in _thought(view).text.toPlainText()


def test_places_in_a_thought_are_places_in_the_answer(view: TextView) -> None:
    view.set_thoughts_open(open_=True)
    view.show_markdown("\U0001f600\n\n" + TEXT)
    source = "\U0001f600\n\n" + TEXT
    inner = _thought(view).text
    at = source.index("this") + 1  # one surrogate pair before it
    box = inner.source_rect(at, at + 4)
    assert box is not None
    place = inner.mapTo(view, QPointF(box.left() + 1, box.center().y()))
    assert view.source_at(place) == at


def test_a_thought_stays_closed_where_nothing_of_a_stretch_is_shown(view: TextView) -> None:
    source = "<think>See [there](https://example.org).</think>\n\nYes."
    view.show_markdown(source)
    at = source.index("example")
    assert view.unfolded_rect(at, at + 7) is None
    assert not _thought(view).opened
    at = source.index("there")
    assert view.unfolded_rect(at, at + 5) is not None
    assert _thought(view).opened


def test_the_tint_reaches_into_thoughts(view: TextView) -> None:
    view.show_markdown(TEXT)
    _thought(view).set_opened(True)
    assert _thought(view).text.marks is view.marks


def test_several_thoughts_and_another_text(view: TextView) -> None:
    view.show_markdown("<think>a</think>\n\nb\n\n<think>c</think>\n\nd")
    assert len(view.findChildren(ThoughtView)) == 2
    assert _everything(view).split() == ["b", "d"]
    view.show_markdown("plain")
    assert view.thoughts == 0
