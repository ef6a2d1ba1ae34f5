"""DuoDecoding chosen in the window: the real engine, two lanes, one of them on a graphics card.

The card is simulated, or a WebGPU adapter: a software one will do, and is what CI has.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot
from traveller import WHOLE, Traveller

from app.chat.messages.answer_texts import answer_table
from app.engine_link.status import Phase
from app.history import AnswerState
from app.performance import PerformancePanel
from app.performance.timeline import overlap
from app.settings.profiles import GIB, ModelProfile
from app.shell.banner import Banner
from app.theme.theme import Theme
from app.tuning.run_panel import RunPanel
from engine.backend.webgpu.adapters import adapters
from engine.commands import DraftChoice, Mode
from engine.hub.local import default_target
from engine.model.local_model import LocalModel

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from head_folders import write_head

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

QUESTION = "Tell me a long story about a dog and a cat."
LONG = "Count from one to fifty."


@pytest.fixture
def guest(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody with a simulated graphics card of 2 GiB, whose window shows the performance."""
    result = Traveller(tmp_path, theme, qtbot, simulate_gpu=2 << 30)
    result.window.performance.show()
    result.start()
    yield result
    result.leave()


@pytest.fixture
def on_adapter(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody who has started the window with `--device webgpu:0`."""
    if not adapters():
        pytest.skip("no WebGPU adapter, or wgpu is not installed (Debian: mesa-vulkan-drivers)")
    result = Traveller(tmp_path, theme, qtbot, device="webgpu:0")
    result.window.performance.show()
    result.start()
    yield result
    result.leave()


def panel(guest: Traveller) -> RunPanel:
    """The panel that says how the model runs, opened with the mouse."""
    button = guest.window.run_button
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    assert button.panel.isVisible()
    return button.panel


def run(guest: Traveller, mode: Mode, vram: int | None = None) -> None:
    """Choose a mode with the mouse, and wait for it."""
    opened = panel(guest)
    opened.modes.rows[mode].button.click()
    opened.choosing.choose(vram=vram)
    opened.apply_button.click()
    guest.until(
        lambda: [each.profile.mode for each in guest.assembly.settings.value.profiles] == [mode]
    )
    guest.until(lambda: guest.assembly.bridge.status.phase is Phase.READY)


def performance(guest: Traveller) -> PerformancePanel:
    shown = guest.window.performance
    assert isinstance(shown, PerformancePanel)
    return shown


def told(guest: Traveller) -> str:
    banners = guest.banners.findChildren(Banner)
    return " ".join(banner.accessibleName() for banner in banners)


@pytest.mark.release(reason="a busy machine may let the draft's thread wait")
def test_both_lanes_are_seen_at_work_and_the_text_is_the_same(guest: Traveller) -> None:
    """The same question in turns and with both lanes at once: one text."""
    run(guest, Mode.DOVETAIL, vram=GIB)
    in_turns = guest.ask(QUESTION).message
    run(guest, Mode.DUO)
    status = guest.assembly.bridge.status
    assert status.plan is not None
    assert status.plan.mode is Mode.DUO
    assert "DuoDecoding: draft on the CPU, target on the simulated GPU" in (
        guest.chat.status_line.text
    )
    guest.session.open(None)
    together = guest.ask(QUESTION).message
    assert together.state in WHOLE
    assert together.stats is not None
    assert together.stats.mode == Mode.DUO
    assert together.stats.drafted > 0
    assert together.signature == in_turns.signature, "all of the target is on the card"
    assert together.text == in_turns.text
    shown = performance(guest)
    guest.until(lambda: not shown.board.feed.model.behind and shown.board.sight.tally is not None)
    rounds = shown.board.feed.model.timeline.rounds
    assert sum(done.committed for done in rounds) == together.stats.committed
    assert any(overlap(done) > 0 for done in rounds), "drafted while the target verified"
    shares = shown.board.feed.model.timeline.shares
    assert shares is not None
    assert shares.both > 0
    assert shares.useful + shares.wasted + shares.open == pytest.approx(shares.draft)
    guest.until(lambda: "useful" in shown.board.draft_time.accessibleDescription())
    numbers = dict(answer_table(together))
    assert numbers["Mode"] == "DuoDecoding"
    assert "useful" in numbers["The draft's time"]


@pytest.mark.release(reason="compiles shaders; a busy machine may let the draft's thread wait")
def test_both_lanes_are_at_work_on_a_webgpu_adapter(on_adapter: Traveller) -> None:
    """The text of plain decoding there, and the draft writes while the adapter verifies."""
    guest = on_adapter
    run(guest, Mode.PLAIN, vram=GIB)
    alone = guest.ask(QUESTION).message
    run(guest, Mode.DUO, vram=GIB)
    guest.session.open(None)
    together = guest.ask(QUESTION).message
    assert together.state in WHOLE
    assert together.stats is not None
    assert together.stats.mode == Mode.DUO
    assert together.signature.startswith("webgpu:")
    assert together.text == alone.text
    model = performance(guest).board.feed.model
    guest.until(lambda: not model.behind)
    rounds, shares = model.timeline.rounds, model.timeline.shares
    assert sum(done.committed for done in rounds) == together.stats.committed
    assert any(overlap(done) > 0 for done in rounds), "drafted while the target verified"
    assert shares is not None
    assert shares.both > 0
    served = guest.assembly._served()().values()
    assert {load.device for load in served} == {"webgpu:0"}, "programs are answered there too"


def test_stopped_in_the_middle_and_asked_again(guest: Traveller) -> None:
    run(guest, Mode.DUO)
    guest.say(LONG)
    guest.writing(20)
    guest.keys("Escape")
    guest.answered()
    stopped = guest.session.messages[-1]
    assert stopped.state in (AnswerState.STOPPED, *WHOLE)
    assert len(stopped.text) >= 20
    answer = guest.ask("And then?").message
    assert answer.state in WHOLE
    assert answer.stats is not None
    assert answer.stats.mode == Mode.DUO


def test_lookup_cannot_be_chosen_and_a_head_drafts_ahead(guest: Traveller, tmp_path: Path) -> None:
    opened = panel(guest)
    opened.drafts.rows[DraftChoice.LOOKUP].button.click()
    duo = opened.modes.rows[Mode.DUO]
    assert not duo.button.isEnabled()
    assert "Needs a draft model" in duo.about.text()
    opened.hide()
    head = write_head(tmp_path / "my head", "dgf", LocalModel.inspect(default_target()).config)
    guest.assembly.models.running.apply(ModelProfile(Mode.DUO, head))

    def drafts() -> bool:
        plan = guest.assembly.bridge.status.plan
        return plan is not None and plan.draft_is_head

    guest.until(drafts)
    guest.until(lambda: guest.assembly.bridge.status.phase is Phase.READY)
    answer = guest.ask("Hello").message
    assert answer.state in WHOLE
    assert answer.stats is not None
    assert answer.stats.mode == Mode.DUO
