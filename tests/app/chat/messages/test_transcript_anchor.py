"""What the reader looks at stays where it is, within a pixel."""

from __future__ import annotations

import pytest
from transcript_reader import Reader, message, words

from app.theme.theme import Theme, ThemeChoice

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def _same(before: int, after: int) -> bool:
    return abs(before - after) <= 1


@pytest.mark.release(keep=2, reason="every place")
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_while_heights_above_and_below_settle(reader: Reader, share: float) -> None:
    reader.show(400)
    bar = reader.transcript.verticalScrollBar()
    bar.setValue(int(bar.maximum() * share))
    first = reader.transcript.visible_range().start
    reader.transcript.bubble_at(first)
    place = reader.transcript.row_top(first)
    before = bar.maximum()
    reader.settle()
    assert bar.maximum() != before  # estimates above and below were wrong, as they should be here
    assert _same(reader.transcript.row_top(first), place)


def test_while_text_streams_in_below(reader: Reader) -> None:
    reader.show(41)
    answer = reader.transcript.add(message(41, "Beginning"))
    reader.begin()
    reader.scroll(0.4)
    bubble, place = reader.top()
    height = answer.height()
    for number in range(30):
        reader.write(f"\n\nMore text {number} " + "and more " * 20)
    reader.bot.waitUntil(lambda: answer.height() > height + 600)
    assert reader.top() == (bubble, place)


def test_in_the_middle_of_the_answer_being_written(reader: Reader) -> None:
    reader.show(3)
    text = "\n\n".join(f"Paragraph {n} " + "words " * 60 for n in range(20))
    reader.transcript.add(message(3, text))
    answer = reader.last_answer()
    reader.begin()
    reader.settle()
    reader.scroll(0.5)
    bubble, position, place = reader.line_at_top()
    assert bubble is answer
    height = answer.height()
    reader.write("\n\n" + text)
    reader.bot.waitUntil(lambda: answer.height() > height + 600)
    assert _same(reader.place_of(answer, position), place)
    assert not reader.transcript.following


@pytest.mark.release(keep=2, reason="every place")
@pytest.mark.parametrize("width", [420, 560, 900])
def test_when_the_width_changes(reader: Reader, width: int) -> None:
    reader.show(60)
    reader.scroll(0.5)
    bubble, position, place = reader.line_at_top()
    reader.window.resize(width, 640)
    reader.settle()
    assert _same(reader.place_of(bubble, position), place)
    reader.bot.wait(0)
    reader.transcript.estimate_anew()
    reader.settle()
    assert _same(reader.place_of(bubble, position), place)


@pytest.mark.parametrize("scale", [0.8, 1.4])
def test_when_the_text_size_changes(reader: Reader, theme: Theme, scale: float) -> None:
    reader.show(60)
    reader.scroll(0.5)
    bubble, position, place = reader.line_at_top()
    height = bubble.height()
    theme.apply(ThemeChoice.LIGHT, font_scale=scale)
    reader.bot.waitUntil(lambda: bubble.height() != height)
    reader.settle()
    assert _same(reader.place_of(bubble, position), place)


def test_when_the_colours_change(reader: Reader, theme: Theme) -> None:
    reader.show(60)
    reader.scroll(0.5)
    bubble, position, place = reader.line_at_top()
    theme.apply(ThemeChoice.DARK)
    reader.bot.wait(1)
    reader.settle()
    assert _same(reader.place_of(bubble, position), place)


def test_when_the_height_of_the_view_changes(reader: Reader) -> None:
    reader.show(60)
    reader.scroll(0.5)
    bubble, place = reader.top()
    reader.window.resize(700, 480)
    reader.settle()
    assert reader.top() == (bubble, place)


def test_when_a_message_above_changes_its_height(reader: Reader) -> None:
    reader.show(60)
    reader.scroll(0.5)
    bubble, place = reader.top()
    above = reader.transcript.bubble_at(reader.transcript.visible_range().start - 2)
    height = above.height()
    above.text.show_markdown(words(3) * 40)
    reader.bot.waitUntil(lambda: above.height() > height)
    assert reader.top() == (bubble, place)


def test_when_another_version_takes_the_place_of_what_follows(reader: Reader) -> None:
    messages = reader.show(60)
    reader.scroll(0.5)
    seen = reader.transcript.visible_range()
    first, changed = seen.start, seen.stop - 1
    bubble, place = reader.top()
    other = [*messages[:changed], message(changed + 500), message(changed + 501)]
    reader.transcript.replace_from(changed, other)
    reader.settle()
    assert reader.transcript.bubble_at(first) is bubble  # what did not change keeps its widget
    assert _same(bubble.y(), place) or reader.transcript.verticalScrollBar().value() == 0


def test_a_version_keeps_its_own_place(reader: Reader) -> None:
    messages = reader.show(60)
    reader.scroll(0.5)
    row = reader.transcript.visible_range().start + 1
    place = reader.transcript.row_top(row)
    longer = message(row + 500, words(3) * 8, version=2, versions=2)
    reader.transcript.replace_from(row, [*messages[:row], longer, *messages[row + 1 :]])
    reader.settle()
    assert _same(reader.transcript.row_top(row), place)


def test_the_end_is_followed_only_from_the_end(reader: Reader) -> None:
    reader.show(20)
    bar = reader.transcript.verticalScrollBar()
    assert reader.transcript.following
    reader.transcript.add(message(21, "Beginning"))
    answer = reader.last_answer()
    reader.begin()
    for number in range(10):
        reader.write(f"\n\nLine {number}")
    reader.bot.waitUntil(lambda: "Line 9" in answer.text.toPlainText())
    reader.settle()
    assert bar.value() == bar.maximum()
    bar.triggerAction(bar.SliderAction.SliderSingleStepSub)
    place = answer.y()
    assert not reader.transcript.following
    reader.write("\n\n".join(f"Further {number}" for number in range(10)))
    reader.bot.waitUntil(lambda: "Further 9" in answer.text.toPlainText())
    reader.settle()
    assert answer.y() == place
    reader.transcript.jump_to_end()
    assert bar.value() == bar.maximum()
