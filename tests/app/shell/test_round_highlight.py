"""Timeline and text point at each other."""

from __future__ import annotations

import pytest
from desk import Desk

from app.performance.panel import PerformancePanel


def panel_of(desk: Desk) -> PerformancePanel:
    panel = desk.assembly.window.performance
    assert isinstance(panel, PerformancePanel)
    panel.show()
    return panel


def test_a_stretch_of_the_timeline_marks_the_words_of_its_answer(desk: Desk) -> None:
    panel = panel_of(desk)
    desk.type_and_send("Hello")
    answer = desk.answered()
    marked: list[tuple[int, int]] = []
    answer.text.mark_source = lambda start, end: marked.append((start, end))  # type: ignore[method-assign]
    cleared: list[bool] = []
    answer.text.clear_mark = lambda: cleared.append(True)  # type: ignore[method-assign]
    request = desk.script.requests[-1].id
    panel.range_hovered.emit(request, 0, 9)
    assert marked == [(0, 9)]
    panel.range_hovered.emit("", -1, -1)
    assert cleared
    panel.range_hovered.emit("another answer", 3, 5)
    assert marked == [(0, 9)]


def test_a_word_shows_the_round_that_wrote_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    panel = panel_of(desk)
    desk.type_and_send("Hello")
    answer = desk.answered()
    desk.bot.waitUntil(lambda: len(panel.sight.rounds) == 0 and bool(panel.sight.timeline.rounds))
    transcript = desk.chat.transcript
    rounds = list(panel.sight.timeline.rounds)
    second = rounds[1]
    transcript.text_hovered.emit(answer.message.id, second.text_start)
    assert [done.index for done in panel.sight.rounds] == [second.index]
    transcript.text_hovered.emit(answer.message.id, -1)
    assert list(panel.sight.rounds) == []
    monkeypatch.setattr("app.shell.round_highlight._REMEMBERED", 1)
    desk.session.began.emit("another", answer.message.id + 1)
    transcript.text_hovered.emit(answer.message.id, second.text_start)
    assert list(panel.sight.rounds) == [], "that answer is long ago"
