"""The list of messages: few widgets for many messages, selection, keyboard, actions."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QTextCursor, QWheelEvent
from PySide6.QtWidgets import QApplication, QTableWidget, QToolButton, QWidget
from pytestqt.qtbot import QtBot
from stopwatch import least
from transcript_reader import Reader, message

from app.chat.messages.answer_details import AnswerDetails
from app.chat.messages.edge_scroll import EdgeScroll
from app.chat.messages.message_actions import Act
from app.chat.messages.message_view import Bubble
from app.chat.messages.user_message import UserMessage
from app.chat.text.thought_view import ThoughtView
from app.history import AnswerState
from engine.events import AnswerStats
from engine.request import SamplingParams

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

STATS = AnswerStats(
    31, 0, 212, 86, 3, 340, 126, (83, 60, 31), (60, 41, 25), 2.48, 0.118, 41.8, 5.07
)
_CODE = "See:\n\n```python\nprint(1)\n```\n\nThat is all."


def _button(bubble: Bubble, name: str) -> QToolButton:
    found = [each for each in bubble.findChildren(QToolButton) if each.accessibleName() == name]
    return next(each for each in found if each.isVisible())


def _wheel(
    view: QWidget, steps: int, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> bool:
    at = QPointF(view.rect().center())
    event = QWheelEvent(
        at,
        QPointF(view.mapToGlobal(at.toPoint())),
        QPoint(),
        QPoint(0, 120 * steps),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, event)
    return event.isAccepted()


def test_ten_thousand_messages_take_few_widgets(reader: Reader) -> None:
    reader.transcript.show_messages([message(number) for number in range(10_000)])
    bar = reader.transcript.verticalScrollBar()
    most = 0
    for step in range(60):
        bar.setValue(bar.maximum() * step // 59)
        QApplication.processEvents()
        most = max(most, len(reader.transcript.bubbles))
    for _ in range(30):
        _wheel(reader.transcript.viewport(), 1)
        QApplication.processEvents()
        most = max(most, len(reader.transcript.bubbles))
    assert most <= 60
    reader.settle()
    assert len(reader.transcript.bubbles) <= 60
    rows = [each for each in reader.transcript.viewport().children() if isinstance(each, QWidget)]
    QApplication.sendPostedEvents(None, 52)  # deferred deletions
    rows = [each for each in reader.transcript.viewport().children() if isinstance(each, QWidget)]
    assert len(rows) <= 60


@pytest.mark.release(reason="a stopwatch")
def test_opening_and_scrolling_keep_their_budgets(reader: Reader) -> None:
    """Generous: three to five times what a quiet machine needs. Waiting for a core is no work."""
    messages = [message(number) for number in range(10_000)]

    def opening() -> float:
        reader.transcript.show_messages([])
        started = time.thread_time()
        reader.transcript.show_messages(messages)
        return time.thread_time() - started

    def scrolling() -> float:
        """Seconds of work in a frame, but for the five slowest."""
        reader.settle()
        frames = []
        for step in range(100):
            started = time.thread_time()
            _wheel(reader.transcript.viewport(), 2 if step % 3 else 6)
            QApplication.processEvents()
            frames.append(time.thread_time() - started)
        return sorted(frames)[-6]

    assert least(opening, 0.2) < 0.2
    assert least(scrolling, 0.08) < 0.08


def test_nothing_in_sight_is_missing_at_rest(reader: Reader) -> None:
    reader.show(500)
    for share in (0.0, 0.31, 0.77, 1.0):
        reader.scroll(share)
        for index in reader.transcript.visible_range():
            assert reader.transcript.is_ready(index)
            bubble = reader.transcript.bubble_at(index)
            assert bubble.isVisible()
            assert bubble.text.toPlainText()


def test_a_long_message_is_laid_out_in_slices_and_whole_in_the_end(reader: Reader) -> None:
    text = "\n\n".join(f"Paragraph {number}: " + "word " * 60 for number in range(600))
    assert len(text) > 190_000
    reader.show(2)
    reader.transcript.replace_from(1, [message(0), message(1, text)])
    answer = reader.last_answer()
    assert not answer.whole
    reader.bot.waitUntil(lambda: answer.whole)
    reader.settle()
    assert "Paragraph 599" in answer.text.toPlainText()
    assert answer.height() > 20_000


def test_the_first_words_are_there_at_once_and_more_with_the_next_frame(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader.show(2)
    reader.transcript.add(message(2))
    reader.transcript.add(replace(message(3), text=""))
    answer = reader.last_answer()
    reader.begin()
    now = [time.perf_counter()]
    with monkeypatch.context() as held:
        held.setattr("app.chat.messages.message_view.time.perf_counter", lambda: now[0])
        reader.write("The first words")
        assert answer.text.toPlainText() == "The first words"
        reader.write(" and more")
        assert answer.text.toPlainText() == "The first words"
        assert answer.whole_text() == "The first words and more"
    reader.bot.waitUntil(lambda: answer.text.toPlainText() == "The first words and more")
    now[0] = time.perf_counter() + 1
    with monkeypatch.context() as held:
        held.setattr("app.chat.messages.message_view.time.perf_counter", lambda: now[0])
        reader.write(" after a while")
        assert answer.text.toPlainText() == "The first words and more after a while"


def test_what_is_selected_stays_selected_while_text_streams_in(reader: Reader) -> None:
    reader.show(2)
    reader.transcript.add(message(2))
    reader.transcript.add(replace(message(3), text=""))
    answer = reader.last_answer()
    reader.begin()
    assert answer.groups() == ((Act.COPY, Act.PLAIN),)
    reader.write("Here are **some** words to select, and")
    reader.bot.waitUntil(lambda: "select" in answer.text.toPlainText())
    cursor = QTextCursor(answer.text.document())
    cursor.setPosition(5)
    cursor.setPosition(24, QTextCursor.MoveMode.KeepAnchor)
    answer.text.setTextCursor(cursor)
    for piece in (" more *of", " them* in the", " same paragraph.\n\nAnd", " another one."):
        reader.write(piece)
        last = piece.split()[-1].strip("*")
        reader.bot.waitUntil(lambda last=last: last in answer.text.toPlainText())
        assert answer.text.textCursor().selectedText() == "are some words to s"
    reader.bot.keyClick(answer.text, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "are some words to s"
    reader.live.ended.emit(replace(message(3), text=answer.whole_text()))
    assert answer.text.textCursor().selectedText() == "are some words to s"


def test_text_is_selected_in_one_message_at_a_time_and_its_widget_stays(reader: Reader) -> None:
    reader.show(200)
    first, second = reader.transcript.bubbles[-1], reader.transcript.bubbles[-2]
    first.text.selectAll()
    second.text.selectAll()
    assert not first.text.textCursor().hasSelection()
    for share in (0.0, 0.2, 0.4, 0.6):
        reader.scroll(share)
    assert second in reader.transcript.bubbles
    assert first not in reader.transcript.bubbles


def test_text_is_selected_with_keys(reader: Reader) -> None:
    reader.transcript.show_messages([message(0), message(1, "Some words of an **answer** here")])
    reader.settle()
    reader.window.activateWindow()
    text = reader.last_answer().text
    text.setFocus()
    both = Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.ControlModifier
    for _ in range(2):
        reader.bot.keyClick(text, Qt.Key.Key_Right, both)
    reader.bot.keyClick(text, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Some words "
    reader.bot.keyClick(text, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    reader.bot.keyClick(text, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Some words of an answer here"


def test_tab_goes_through_what_is_in_sight(reader: Reader) -> None:
    reader.transcript.show_messages([message(0), message(1, _CODE), message(2)])
    reader.settle()
    reader.window.activateWindow()
    reader.before.setFocus()
    reader.bot.waitUntil(reader.before.hasFocus)
    names = []
    while not reader.after.hasFocus():
        reader.bot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        names.append(QApplication.focusWidget().accessibleName())
        assert len(names) < 40
    more = "More actions"
    acts = ["Copy message", "Edit and send again", more]
    question = ["Your message", *acts]
    last = ["Your message", *acts, "Generate a response"]
    answer = ["Answer", "Copy code", "Copy message", "Regenerate", more]
    assert names[:-1] == ["Conversation", *question, *answer, *last]
    back = []
    while not reader.before.hasFocus():
        reader.bot.keyClick(
            QApplication.focusWidget(), Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier
        )
        back.append(QApplication.focusWidget().accessibleName())
        assert len(back) < 40
    assert back[:-1] == names[:-1][::-1]


def test_tab_leaves_behind_the_last_message_in_sight(reader: Reader) -> None:
    reader.show(100)
    reader.scroll(0.5)
    reader.window.activateWindow()
    last = reader.transcript.visible_range()[-1]
    reader.transcript.bubble_at(last).text.setFocus()
    for _ in range(8):
        reader.bot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
        if reader.after.hasFocus():
            break
    assert reader.after.hasFocus()


def test_keys_scroll_wherever_the_focus_is(reader: Reader) -> None:
    reader.show(100)
    bar = reader.transcript.verticalScrollBar()
    text = reader.transcript.bubbles[-1].text
    reader.window.activateWindow()
    text.setFocus()
    end = bar.value()
    reader.bot.keyClick(text, Qt.Key.Key_PageUp)
    assert bar.value() < end - 200
    page = bar.value()
    reader.bot.keyClick(text, Qt.Key.Key_Down)
    assert page < bar.value() < page + 200
    reader.bot.keyClick(text, Qt.Key.Key_Home)
    assert bar.value() == 0
    reader.bot.keyClick(text, Qt.Key.Key_End)
    assert reader.transcript.following
    reader.bot.keyClick(text, Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier)
    assert reader.transcript.bubbles[-2].text.hasFocus()
    bar.setValue(0)
    reader.bot.keyClick(
        QApplication.focusWidget(), Qt.Key.Key_Up, Qt.KeyboardModifier.ControlModifier
    )
    shown = reader.transcript.bubble_at(97)
    assert shown.text.hasFocus()
    assert 0 <= shown.y() < shown.geometry().bottom() <= reader.transcript.viewport().height()


def test_the_keyboard_comes_to_a_conversation_without_messages(reader: Reader) -> None:
    reader.window.activateWindow()
    reader.after.setFocus()
    reader.bot.waitUntil(reader.after.hasFocus)
    reader.bot.keyClick(reader.after, Qt.Key.Key_Tab, Qt.KeyboardModifier.ShiftModifier)
    assert reader.transcript.hasFocus()
    reader.bot.keyClick(reader.transcript, Qt.Key.Key_Down, Qt.KeyboardModifier.ControlModifier)
    assert reader.transcript.hasFocus()


def test_the_wheel_over_a_text_makes_it_no_larger(reader: Reader) -> None:
    reader.show(2)
    text = reader.last_answer().text
    before = text.font().pointSizeF()
    assert not _wheel(text.viewport(), 1, Qt.KeyboardModifier.ControlModifier)
    assert text.font().pointSizeF() == before


def test_actions_are_mirrored_where_text_runs_from_right_to_left(reader: Reader) -> None:
    reader.show(2)
    width = reader.last_answer().footer.width()
    before = _button(reader.last_answer(), "More actions").geometry()
    reader.window.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
    reader.transcript.reset_rows()
    reader.settle()
    after = _button(reader.last_answer(), "More actions").geometry()
    assert (after.left(), after.width()) == (width - 1 - before.right(), before.width())


def test_versions_with_arrows_and_keys(reader: Reader) -> None:
    messages = [message(0), message(1, "Second answer", version=2, versions=3)]
    reader.transcript.show_messages(messages)
    reader.settle()
    asked: list[tuple[int, int]] = []
    reader.transcript.requests.show_version.connect(
        lambda number, step: asked.append((number, step))
    )
    answer = reader.last_answer()
    _button(answer, "Previous version").click()
    _button(answer, "Next version").click()
    answer.text.setFocus()
    reader.bot.keyClick(answer.text, Qt.Key.Key_Left, Qt.KeyboardModifier.AltModifier)
    assert asked == [(2, -1), (2, 1), (2, -1)]
    newest = replace(message(1, "Third answer", version=3, versions=3), id=9)
    reader.transcript.replace_from(1, [messages[0], newest])
    reader.settle()
    shown = reader.last_answer()
    assert shown.text.hasFocus()
    assert not _button(shown, "Next version").isEnabled()
    reader.bot.keyClick(shown.text, Qt.Key.Key_Right, Qt.KeyboardModifier.AltModifier)
    assert len(asked) == 3  # there is no fourth


def test_a_message_that_only_learned_of_other_versions_keeps_its_widget(reader: Reader) -> None:
    messages = reader.show(4)
    answer = reader.last_answer()
    reader.transcript.replace_from(3, [*messages[:3], replace(messages[3], versions=2)])
    reader.settle()
    assert reader.last_answer() is answer
    assert _button(answer, "Next version").isEnabled()


def test_a_message_is_edited_in_its_place(reader: Reader) -> None:
    reader.show(4)
    sent: list[tuple[int, str]] = []
    reader.transcript.requests.edit.connect(lambda number, text: sent.append((number, text)))
    question = reader.transcript.bubble_at(2)
    assert isinstance(question, UserMessage)
    question.act(Act.EDIT)
    assert question.editor is not None
    field = question.editor.field
    assert field.hasFocus() or not reader.window.isActiveWindow()
    assert question.busy
    field.setPlainText("")
    reader.bot.keyClick(field, Qt.Key.Key_Return)
    assert not question.editor.send_button.isEnabled()
    field.setPlainText("Line")
    reader.bot.keyClick(field, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    reader.bot.keyClick(field, Qt.Key.Key_Escape)
    assert question.editor is None
    assert sent == []
    question.act(Act.EDIT)
    assert question.editor is not None
    question.editor.field.setPlainText("Another question")
    reader.bot.keyClick(question.editor.field, Qt.Key.Key_Return)
    assert sent == [(3, "Another question")]
    assert question.editor is None


def test_actions_come_with_mouse_and_focus_and_stay_at_the_last_answer(reader: Reader) -> None:
    reader.show(4)
    reader.window.activateWindow()
    reader.before.setFocus()
    answer, other = reader.last_answer(), reader.transcript.bubble_at(1)

    def shown(bubble: Bubble) -> bool:
        names = [each.accessibleName() for each in bubble.footer.stops if each.isVisible()]
        return "Copy message" in names

    assert shown(answer)
    assert not shown(other)
    other.text.setFocus()
    reader.bot.waitUntil(lambda: shown(other))
    reader.before.setFocus()
    reader.bot.waitUntil(lambda: not shown(other))


@pytest.mark.parametrize("number", [2, 3])
def test_actions_never_come_up_where_the_arrows_are(reader: Reader, number: int) -> None:
    messages = [message(each) for each in range(4)]
    messages[number] = replace(messages[number], version=9, versions=10)
    reader.transcript.show_messages(messages)
    reader.settle()
    reader.before.setFocus()
    bubble = reader.transcript.bubble_at(number)
    names = ("Previous version", "Next version")
    before = [_button(bubble, name).geometry() for name in names]
    bubble.set_focused(focused=True)
    assert _button(bubble, "More actions").isVisible()
    assert [_button(bubble, name).geometry() for name in names] == before
    bubble.message = replace(bubble.message, version=10)
    bubble.update_parts()
    assert [_button(bubble, name).geometry() for name in names] == before
    icons = [each for each in bubble.footer.stops if each.accessibleName().startswith("Delete")]
    assert not icons
    assert any(Act.DELETE in group for group in bubble.groups())


def test_the_arrows_stay_under_the_pointer_when_a_version_is_longer(reader: Reader) -> None:
    messages = [message(each) for each in range(20)]
    messages[10] = replace(message(10, "Short"), version=1, versions=2)
    reader.transcript.show_messages(messages)
    reader.transcript.show_row(9, 0)
    reader.settle()

    def arrow() -> QPoint:
        button = _button(reader.transcript.bubble_at(10), "Next version")
        return button.mapTo(reader.window, QPoint(0, 0))

    place = arrow()
    longer = replace(message(10, "longer\n" * 12), id=99, version=2, versions=2)
    newer = [replace(message(each), id=200 + each) for each in range(11, 20)]
    _button(reader.transcript.bubble_at(10), "Next version").click()
    reader.transcript.replace_from(10, [*messages[:10], longer, *newer])
    reader.settle()
    assert arrow() == place


def test_what_the_actions_ask_for(reader: Reader) -> None:
    stopped = replace(message(3, "Half an"), state=AnswerState.STOPPED)
    reader.transcript.show_messages([message(0), message(1, "**Bold** words"), message(2), stopped])
    reader.settle()
    asked: list[object] = []
    reader.transcript.requests.resume.connect(lambda: asked.append("continue"))
    reader.transcript.requests.regenerate.connect(asked.append)
    reader.transcript.requests.delete.connect(asked.append)
    last, first = reader.last_answer(), reader.transcript.bubble_at(1)
    assert "Stopped" in last.note
    _button(last, "Continue this answer").click()
    _button(last, "Regenerate").click()
    first.act(Act.DELETE)
    assert asked == ["continue", 4, 2]
    first.act(Act.COPY)
    assert QGuiApplication.clipboard().text() == "**Bold** words"
    first.act(Act.PLAIN)
    assert QGuiApplication.clipboard().text() == "Bold words"


def test_a_question_left_without_an_answer_asks_for_one(reader: Reader) -> None:
    reader.show(3)
    asked: list[int] = []
    reader.transcript.requests.regenerate.connect(asked.append)
    question = reader.transcript.bubble_at(2)
    _button(question, "Generate a response").click()
    assert asked == [3]
    reader.transcript.add(message(3))
    reader.settle()
    assert question.footer.stops == []


def test_thoughts_are_not_copied(reader: Reader) -> None:
    reader.transcript.show_messages([message(0), message(1, "<think>Hm, hm.</think>Yes.")])
    reader.settle()
    reader.last_answer().copy()
    assert QGuiApplication.clipboard().text() == "Yes."
    reader.transcript.set_reading(tinted=False, thoughts_open=True)
    reader.transcript.reset_rows()
    reader.settle()
    (thought,) = reader.last_answer().findChildren(ThoughtView)
    assert thought.opened


def test_the_numbers_of_an_answer_are_shown_and_copied(reader: Reader) -> None:
    sampling = SamplingParams(temperature=0.7, top_p=0.9, seed=42)
    answer = replace(message(1, "Yes"), stats=STATS, model="Small", sampling=sampling)
    reader.transcript.show_messages([message(0), answer])
    reader.settle()
    numbers = _button(reader.last_answer(), "Response statistics")
    assert "41.8 tokens/s" in numbers.text()
    numbers.click()
    (dialog,) = reader.window.findChildren(AnswerDetails)
    table = dialog.findChild(QTableWidget)
    assert isinstance(table, QTableWidget)
    dialog.copy()
    copied = QGuiApplication.clipboard().text()
    assert "| Model | Small |\n|:--|:--|\n" in copied
    assert "temperature 0.7, top-p 0.9, seed 42" in copied
    assert "72\u202f%, 68\u202f%, 81\u202f%" in copied
    dialog.close()


def test_revealing_goes_straight_to_a_message_and_its_words(reader: Reader) -> None:
    messages = [message(number) for number in range(1_000)]
    hidden = "\n\n".join(f"Paragraph {number}" for number in range(80)) + "\n\nThe needle is here."
    messages[501] = message(501, hidden)
    reader.transcript.show_messages(messages)
    reader.settle()
    reader.transcript.reveal(messages[501].id, ["needle"])
    reader.settle()
    bubble = reader.transcript.bubble_at(501)
    hit = bubble.text.first_hit()
    assert hit is not None
    place = bubble.text.mapTo(reader.transcript.viewport(), hit.topLeft().toPoint()).y()
    assert 0 <= place < reader.transcript.viewport().height() - 20
    assert len(reader.transcript.bubbles) <= 60
    reader.transcript.reveal(messages[3].id)
    reader.settle()
    assert bubble.text.first_hit() is None
    assert 3 in reader.transcript.visible_range()
    start = hidden.index("needle")
    reader.transcript.mark_answer_range(messages[501].id, start, start + 6)
    reader.scroll(501 / 1_000)
    marked = reader.transcript.bubble_at(501).text
    assert marked.marks.mark == (start, start + 6)


def test_the_streaming_message_lives_wherever_the_reader_is(reader: Reader) -> None:
    reader.show(301)
    reader.transcript.add(replace(message(301), text=""))
    answer = reader.last_answer()
    reader.begin()
    reader.scroll(0.0)
    for _ in range(40):
        _wheel(reader.transcript.viewport(), -3)
        QApplication.processEvents()
    reader.write("Still here")
    reader.bot.waitUntil(lambda: "Still here" in answer.text.toPlainText())
    assert reader.last_answer() is answer


def test_dragging_a_selection_beyond_the_edge_scrolls(reader: Reader, qtbot: QtBot) -> None:
    reader.show(3)
    text = "\n\n".join(f"Paragraph {number} " + "word " * 30 for number in range(60))
    reader.transcript.show_messages([message(0), message(1, text)])
    reader.settle()
    reader.scroll(0.5)
    answer, view = reader.last_answer(), reader.transcript.viewport()
    surface = answer.text.viewport()
    before = reader.transcript.verticalScrollBar().value()
    start = surface.mapFrom(view, QPoint(200, 100))
    below = surface.mapFrom(view, QPoint(200, view.height() + 60))
    qtbot.mousePress(surface, Qt.MouseButton.LeftButton, pos=start)
    _drag(surface, below)
    qtbot.waitUntil(lambda: reader.transcript.verticalScrollBar().value() > before + 1_500)
    (edges,) = reader.transcript.findChildren(EdgeScroll)
    (timer,) = edges.findChildren(QTimer)
    _drag(surface, surface.mapFrom(view, QPoint(200, 100)))
    qtbot.waitUntil(lambda: not timer.isActive())
    _drag(surface, surface.mapFrom(view, QPoint(200, view.height() + 60)))
    assert timer.isActive()
    qtbot.mouseRelease(surface, Qt.MouseButton.LeftButton, pos=below)
    selected = answer.text.textCursor().selectedText()
    assert len(selected) > 3_000


def _drag(surface: QWidget, to: QPoint) -> None:
    from PySide6.QtCore import QEvent
    from PySide6.QtGui import QMouseEvent

    moved = QMouseEvent(
        QEvent.Type.MouseMove,
        QPointF(to),
        QPointF(surface.mapToGlobal(to)),
        Qt.MouseButton.NoButton,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(surface, moved)


def test_an_answer_that_has_ended_is_whole_in_a_row_made_anew(reader: Reader) -> None:
    reader.show(2)
    reader.transcript.add(replace(message(3), text=""))
    live = reader.begin()
    reader.write("The whole answer")
    live.ended.connect(reader.transcript.take_in)
    live.ended.emit(live.message)
    reader.transcript.reset_rows()
    assert reader.last_answer().whole_text() == "The whole answer"
    live = reader.begin()
    reader.write("More than was kept")
    live.ended.emit(replace(live.message, text="What was kept"))
    assert reader.last_answer().text.toPlainText() == "What was kept"
