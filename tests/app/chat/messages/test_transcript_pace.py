"""The line at the top stays put on fast and on slow machines, wherever the time for layout ends."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from types import SimpleNamespace

import pytest
from pytestqt.qtbot import QtBot
from transcript_reader import Reader, message, words

from app.theme.theme import Theme, ThemeChoice

# What a window without a screen cannot do, Qt says.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

_PACES = [0.0, 0.001, 1.0]
"""Seconds that pass between two looks at the clock: all is done at once, some of it, next to
nothing."""


@pytest.fixture(params=_PACES, ids=["fast", "middling", "slow"])
def paced(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, theme: Theme, qtbot: QtBot
) -> Iterator[Reader]:
    """A transcript on a machine of some pace, whatever the pace of this one."""
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    looks = count()
    clock = SimpleNamespace(perf_counter=lambda: next(looks) * request.param)
    monkeypatch.setattr("app.chat.messages.column.time", clock)
    monkeypatch.setattr("app.chat.text.text_view.time", clock)
    monkeypatch.setattr("app.chat.messages.column._REFLOW_MS", 0)
    yield Reader(qtbot)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)


def _rest(reader: Reader) -> None:
    """Texts that hear of another font begin anew in a later turn; so do estimates."""
    for _ in range(3):
        reader.bot.wait(0)
        reader.settle()


def _scroll_to(reader: Reader, row: int, below: int) -> None:
    """Have the place `below` pixels under the top of a row at the top of the view."""
    reader.transcript.show_row(row, 0)
    reader.settle()
    bar = reader.transcript.verticalScrollBar()
    bar.setValue(bar.value() + below)
    reader.settle()


@pytest.mark.release(keep=2, reason="every place in the text")
@pytest.mark.parametrize("below", [-6, 9, 40, 83])
def test_when_the_text_size_changes_and_changes_back(
    paced: Reader, theme: Theme, below: int
) -> None:
    paced.show(14)
    _scroll_to(paced, 6, below)
    bubble, position, place = paced.line_at_top()
    for scale in (0.8, 1.4, 1.0):
        height = bubble.height()
        theme.apply(ThemeChoice.LIGHT, font_scale=scale)
        paced.bot.waitUntil(lambda height=height: bubble.height() != height)
        assert abs(paced.place_of(bubble, position) - place) <= 1
        _rest(paced)
        assert abs(paced.place_of(bubble, position) - place) <= 1


@pytest.mark.release(keep=2, reason="every pace")
def test_when_the_colours_change(paced: Reader, theme: Theme) -> None:
    paced.show(14)
    _scroll_to(paced, 6, 40)
    bubble, position, place = paced.line_at_top()
    for choice in (ThemeChoice.DARK, ThemeChoice.LIGHT):
        theme.apply(choice)
        _rest(paced)
        assert abs(paced.place_of(bubble, position) - place) <= 1


@pytest.mark.release(keep=2, reason="every place in the text")
@pytest.mark.parametrize("below", [-6, 9, 40, 83])
def test_when_the_width_changes_and_changes_back(paced: Reader, below: int) -> None:
    paced.show(14)
    _scroll_to(paced, 6, below)
    bubble, position, place = paced.line_at_top()
    for width in (420, 900, 560, 700):
        paced.window.resize(width, 640)
        _rest(paced)
        assert abs(paced.place_of(bubble, position) - place) <= 1


@pytest.mark.release(keep=2, reason="every pace")
def test_when_the_top_of_the_view_is_below_the_text_of_its_message(
    paced: Reader, theme: Theme
) -> None:
    paced.show(14)
    _scroll_to(paced, 6, 0)
    above = paced.transcript.bubble_at(5)
    bar = paced.transcript.verticalScrollBar()
    bar.setValue(bar.value() - 20)  # in sight of message 5 is only its footer
    assert above.y() + above.text_top + above.text.height() < 0 < above.geometry().bottom()
    bubble, position, place = paced.line_at_top()
    assert bubble is paced.transcript.bubble_at(6)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.4)
    _rest(paced)
    paced.window.resize(420, 640)
    _rest(paced)
    assert abs(paced.place_of(bubble, position) - place) <= 1


@pytest.mark.release(keep=2, reason="every pace")
def test_a_text_that_takes_many_slices(paced: Reader, theme: Theme) -> None:
    long = "\n\n".join(words(number) for number in range(60))
    paced.transcript.show_messages([message(0), message(1, long), message(2)])
    paced.settle()
    _scroll_to(paced, 1, 2_000)
    bubble, position, place = paced.line_at_top()
    height = bubble.height()
    theme.apply(ThemeChoice.DARK, font_scale=0.8)
    paced.bot.waitUntil(lambda: bubble.height() < height and paced.transcript.settled)
    _rest(paced)
    assert abs(paced.place_of(bubble, position) - place) <= 1


@pytest.mark.release(keep=2, reason="every pace")
def test_what_is_scrolled_to_meanwhile(paced: Reader, theme: Theme) -> None:
    """The reader moves on before everything is laid out for the width and the font there is."""
    paced.show(14)
    _scroll_to(paced, 8, 9)
    paced.window.resize(420, 640)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.2)
    bar = paced.transcript.verticalScrollBar()
    bar.setValue(bar.value() - 130)
    bubble, position, place = paced.line_at_top()
    _rest(paced)
    assert abs(paced.place_of(bubble, position) - place) <= 1
