"""Why is it slow? The performance page during an answer, and the draft switched off and on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from traveller import Traveller

from app.history import StoredMessage
from app.performance.performance_page import PerformancePage
from app.shell.banner import Banner
from app.shell.page_names import PageName
from app.theme.theme import Theme

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

COMPARED = re.compile(r"With the draft [\d.,]+ tokens/s, without it [\d.,]+ tokens/s")
"""Both speeds, whether drafting made it faster or slower."""
QUESTION = "Tell me a long story about a dog and a cat."


@pytest.fixture
def guest(
    tmp_path: Path, theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Traveller]:
    # Beside other tests the CPU is in others' hands, and nothing would be compared.
    monkeypatch.setattr("engine.machine.cpu_share.CpuShare.of_others", lambda _self: 0.0)
    result = Traveller(tmp_path, theme, qtbot)
    result.start_drafting()
    yield result
    result.leave()


def opened(guest: Traveller) -> PerformancePage:
    """The performance page, by the keyboard, with all of the answer in it."""
    pages = guest.window.pages
    if pages.shown is not PageName.PERFORMANCE:
        guest.keys("Ctrl+3")
    assert pages.shown is PageName.PERFORMANCE
    page = pages.page(PageName.PERFORMANCE)
    assert isinstance(page, PerformancePage)
    return page


def settled(guest: Traveller, page: PerformancePage, message: StoredMessage) -> None:
    """Wait until the page has the whole of an answer, painted and in words."""
    assert message.stats is not None
    committed = message.stats.committed

    def whole() -> bool:
        tally = page.board.sight.tally
        return page.board.frames.at_rest and tally is not None and tally.stats == message.stats

    guest.until(whole)
    assert sum(done.committed for done in page.board.sight.timeline.rounds) == committed


def test_why_is_it_slow(guest: Traveller) -> None:
    guest.say(QUESTION)
    guest.writing()
    page = opened(guest)
    guest.answered()
    drafted = guest.session.messages[-1]
    assert drafted.stats is not None
    assert drafted.stats.drafted > 0
    settled(guest, page, drafted)
    assert "of the time" in page.board.timeline.accessibleDescription(), "who waits for whom"
    assert re.search(r"\d", page.board.findings.words), "a number it rests on"
    # What the draft brings, measured with the same question; nothing of it is kept.
    said = list(guest.session.messages)
    rounds = page.board.sight.timeline
    guest.until(page.board.findings.measure.isEnabled)
    page.board.findings.measure.click()
    guest.until(lambda: COMPARED.search(page.board.findings.comparison.text()))
    guest.until(lambda: page.board.findings.measure.text() == "Measure without the draft")
    assert guest.session.messages == said
    assert page.board.feed.model.timeline is rounds
    assert not guest.window.findChildren(Banner)


@pytest.mark.release(reason="a real engine for each way to find out")
def test_the_draft_is_switched_off_and_on(guest: Traveller) -> None:
    """The same text each time, and the honest difference."""
    with_draft = guest.ask(QUESTION).message
    page = opened(guest)
    settled(guest, page, with_draft)
    page.board.findings.drafting.click()
    guest.session.open(None)
    alone = guest.ask(QUESTION).message
    assert alone.stats is not None
    assert (alone.stats.drafted, alone.text) == (0, with_draft.text)
    page = opened(guest)
    settled(guest, page, alone)
    assert not page.board.findings.drafting.isChecked()
    page.board.findings.drafting.click()
    guest.session.open(None)
    again = guest.ask(QUESTION).message
    assert again.stats is not None
    assert again.stats.drafted > 0
    assert again.text == with_draft.text
    page = opened(guest)
    settled(guest, page, again)
    assert COMPARED.search(page.board.findings.comparison.text())
