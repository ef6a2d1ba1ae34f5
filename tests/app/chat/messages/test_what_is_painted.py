"""While an answer is written: the screen shows what it should, and little of it is painted anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QImage, QPaintEvent
from PySide6.QtWidgets import QApplication, QWidget
from transcript_reader import Reader, message

from app.history import StoredMessage
from app.theme.theme import Theme, ThemeChoice
from engine.request import Role

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

PIECES = [
    "A *paragraph* that ",
    "goes on and on, word after word, until it has filled more than one line of the column. " * 2,
    "\n\n- one\n- two\n",
    "- three, which is longer than the others and needs a second line for itself, or nearly so\n",
    "\n\n```python\nfor each in range(10):\n",
    "    print(each)\n" * 3,
    "    print(each, each)\n```\n\n",
    "> quoted\n\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n",
    "| 3 | 4 |\n\nIt ends ",
    "here.",
] * 2


class Painted(QObject):
    """Counts what is painted, and how much of it."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Counter[QObject] = Counter()
        self.area: Counter[QObject] = Counter()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if isinstance(event, QPaintEvent):
            self.times[watched] += 1
            for rect in event.region():  # type: ignore[attr-defined]
                self.area[watched] += rect.width() * rect.height()
        return False


def _answering(reader: Reader, before: int = 8) -> None:
    reader.show(before)
    answer = reader.transcript.add(StoredMessage(99, Role.ASSISTANT, ""))
    reader.settle()
    assert answer is reader.last_answer()
    reader.begin()
    reader.settle()
    QApplication.processEvents()


def _write(reader: Reader, piece: str) -> None:
    """One frame: a piece is written and painted."""
    answer = reader.last_answer()
    reader.write(piece)
    answer._flush()
    reader.settle()
    QApplication.processEvents()


def _on_screen(reader: Reader) -> QImage:
    window = reader.window
    shown = window.screen().grabWindow(window.winId()).toImage()
    return shown.convertToFormat(QImage.Format.Format_RGB32)


def _as_it_should_be(reader: Reader) -> QImage:
    return reader.window.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


@pytest.fixture
def painted(theme: Theme) -> Iterator[Painted]:
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    counts = Painted()
    application = QApplication.instance()
    assert application is not None
    application.installEventFilter(counts)
    yield counts
    application.removeEventFilter(counts)


@pytest.mark.parametrize("before", [1, 8])
def test_the_screen_shows_every_frame_as_if_all_of_it_were_painted_anew(
    reader: Reader, before: int
) -> None:
    _answering(reader, before)
    for number, piece in enumerate(PIECES):
        _write(reader, piece)
        assert _on_screen(reader) == _as_it_should_be(reader), number
    reader.live.ended.emit(StoredMessage(99, Role.ASSISTANT, "".join(PIECES)))
    reader.settle()
    QApplication.processEvents()
    assert _on_screen(reader) == _as_it_should_be(reader)


def test_so_it_does_while_the_reader_scrolls_and_the_window_changes(reader: Reader) -> None:
    _answering(reader)
    bar = reader.transcript.verticalScrollBar()
    for number, piece in enumerate(PIECES):
        if number % 4 == 1:
            bar.setValue(bar.value() - 97)
        elif number % 4 == 3:
            reader.transcript.jump_to_end()
        if number % 5 == 2:
            reader.window.resize(700 - 10 * number, 640 + 7 * number)
        _write(reader, piece)
        assert _on_screen(reader) == _as_it_should_be(reader), number


def test_a_line_more_paints_no_other_message_and_little_of_its_own(
    reader: Reader, painted: Painted
) -> None:
    _answering(reader)
    _write(reader, "A line.\n\n" * 40)
    view = reader.transcript.viewport()
    others = {each for bubble in reader.transcript.bubbles[:-1] for each in _all_of(bubble)}
    _write(reader, "Another")
    before = reader.last_answer().height()
    painted.times.clear()
    painted.area.clear()
    _write(reader, " line.\n\nA new paragraph that begins")
    assert reader.last_answer().height() > before  # the view has followed
    assert not others & set(painted.times)
    text = reader.last_answer().text.viewport()
    assert 0 < painted.area[text] < 0.4 * view.width() * view.height()


def test_words_within_a_line_paint_the_text_and_what_is_below_it(
    reader: Reader, painted: Painted
) -> None:
    _answering(reader)
    _write(reader, "A line.\n\n" * 40 + "It goes")
    painted.times.clear()
    painted.area.clear()
    _write(reader, " on")
    answer, view = reader.last_answer(), reader.transcript.viewport()
    shown = {each for each in painted.times if isinstance(each, QWidget)}
    assert shown == {view, answer, answer.text, answer.text.viewport()}
    assert painted.area[view] < 0.15 * view.width() * view.height()


def _all_of(bubble: QWidget) -> list[QWidget]:
    return [bubble, *bubble.findChildren(QWidget)]


def test_messages_out_of_the_answers_way_are_shown_too(reader: Reader) -> None:
    """A question on top of the answer moves out of sight with it."""
    reader.transcript.show_messages([message(0)])
    reader.settle()
    _answering(reader, 1)
    for _ in range(12):
        _write(reader, "Some more words of one paragraph, which is getting longer and longer. ")
        assert _on_screen(reader) == _as_it_should_be(reader)
