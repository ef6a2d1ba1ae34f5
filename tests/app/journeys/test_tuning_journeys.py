"""Somebody tunes the model on the page, on the real engine and a simulated graphics card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from traveller import Traveller

from app.engine_link.measured import FEWEST_TOKENS
from app.engine_link.status import Phase
from app.shell.page_names import PageName
from app.theme.theme import Theme
from app.tuning.tuning_page import TuningPage
from engine.commands import Mode

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

QUESTIONS = [
    f"Tell me a long story about a {who}." for who in ("dog", "cat", "bird", "bear", "cow")
]
"""A story may turn out short, and says nothing about speed then."""


@pytest.fixture
def guest(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody who tries how a graphics card of 2 GiB would work."""
    result = Traveller(tmp_path, theme, qtbot, simulate_gpu=2 << 30)
    yield result
    result.leave()


def tuning(traveller: Traveller) -> TuningPage:
    """The page, opened with the keyboard, with everything on it."""
    traveller.keys("Ctrl+2")
    page = traveller.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)
    planned(traveller, page)
    return page


def planned(traveller: Traveller, page: TuningPage) -> None:
    traveller.until(lambda: page.previews.current is not None)
    page.show_state()


def test_a_budget_is_chosen_applied_after_the_answer_and_measured(guest: Traveller) -> None:
    """Journey 6."""
    guest.start()
    guest.assembly.models.running.apply(guest.assembly.models.running.profile)
    page = tuning(guest)
    page.mode.modes.rows[Mode.DOVETAIL].button.click()
    planned(guest, page)
    page.memory.budget.slider.setFocus()
    QTest.keyClick(page.memory.budget.slider, Qt.Key.Key_End)
    planned(guest, page)
    page.bar.apply_button.click()
    guest.until(lambda: page.choosing.running.in_force == page.choosing.profile)
    planned(guest, page)
    bridge, slider, budget = (
        guest.assembly.bridge,
        page.memory.budget.slider,
        page.memory.budget,
    )
    model, before = budget.model, bridge.status.plan
    assert model is not None
    assert before is not None
    assert "simulated" in page.bar.now.text()
    assert before.layers_on_gpu, "a card is there, and is used"

    # From end to end: everything follows, and the model is not touched.
    slider.setFocus()
    QTest.keyClick(slider, Qt.Key.Key_Home)
    said = {budget.sentence.text()}
    steps = [page.choosing.profile.vram]
    for _ in range(len(model.points) - 1):
        QTest.keyClick(slider, Qt.Key.Key_Right)
        said.add(budget.sentence.text())
        steps.append(page.choosing.profile.vram)
    assert steps == [point.vram for point in model.points]
    assert len(said) == len(steps), "each step says something of its own"
    assert bridge.status.plan is before
    assert bridge.status.phase is Phase.READY

    # Chosen while an answer is written, applied after it.
    guest.keys("Escape")
    guest.until(lambda: guest.window.pages.shown is None)
    guest.say(QUESTIONS[0])
    page = tuning(guest)
    QTest.keyClick(slider, Qt.Key.Key_Home)
    planned(guest, page)
    wanted = model.points[0]
    assert page.bar.apply_button.text() in ("Apply after this answer", "Apply")
    page.bar.apply_button.click()
    guest.answered()
    guest.until(
        lambda: (
            bridge.status.phase is Phase.READY
            and (plan := bridge.status.plan) is not None
            and plan.layers_on_gpu == wanted.layers_on_gpu
        )
    )
    assert not page.choosing.differs

    # The next answer's speed is a point on the curve.
    guest.keys("Escape")
    guest.until(lambda: guest.window.pages.shown is None)
    known, speeds = len(guest.assembly.measured.all), []
    for question in QUESTIONS:
        guest.keys("Ctrl+N")
        guest.ask(question)
        stats = guest.session.messages[-1].stats
        assert stats is not None
        speeds += [stats.tokens_per_s] if stats.committed >= FEWEST_TOKENS else []
        if speeds:
            break
    newest = guest.assembly.measured.all[-1]
    assert [point.tokens_per_s for point in guest.assembly.measured.all[known:]] == speeds
    assert newest.layers_on_gpu == wanted.layers_on_gpu
    page = tuning(guest)
    shown = page.memory.budget.model
    assert shown is not None
    assert newest.tokens_per_s in [point.tokens_per_s for point in shown.measured]
    assert "measured" in page.bar.now.text()
