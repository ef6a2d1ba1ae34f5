"""The performance page: before the first answer, during one, frozen, with two lanes at work."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from time import perf_counter

from PySide6.QtCore import Qt, QThreadPool

from app.performance.chip_layout import TokenDisplay
from app.performance.performance_page import PerformancePage
from app.shell.page_names import PageName
from app.showcase.scenes.shoot import Shoot, answer, new_chat
from app.showcase.script import MACHINE, MODEL_NAME, PLAN
from app.showcase.stage import Stage, catch_up, settle
from engine.commands import Load, Mode
from engine.events import MachineFound, PlanReady
from engine.machine.facts import Accelerator
from engine.machine.memory import DeviceMemory

_MODEL = Path("model")
_SIMULATED = Accelerator("simulated:0", "Simulated GPU", memory_total=4 * 2**30, simulated=True)
_DUO = replace(
    PLAN,
    mode=Mode.DUO,
    target_device="Simulated GPU",
    layers=8,
    layers_on_gpu=8,
    memory=(DeviceMemory("cpu", 0), DeviceMemory("simulated:0", 0, target=15_000_000)),
)
_TEXT = " ".join(
    f"Sentence {number} says something that the draft could guess well." for number in range(40)
)
_NARROW = 700


def performance_page(stage: Stage, shoot: Shoot) -> None:
    """Show every state of the page."""
    window, session = stage.window, stage.assembly.session
    new_chat(stage)
    window.pages.open(PageName.PERFORMANCE)
    page = window.pages.page(PageName.PERFORMANCE)
    assert isinstance(page, PerformancePage)  # noqa: S101 - told to the type checker
    page.board.feed.clear()
    catch_up()
    shoot("performance-page-empty")
    session.send("Write something long.")
    window.pages.open(PageName.PERFORMANCE)
    stage.stream(_TEXT[:1200])
    catch_up()
    shoot("performance-page-live")
    stage.finish(_TEXT[:1200])
    answer(stage, "And more.", _TEXT)
    window.pages.open(PageName.PERFORMANCE)
    catch_up()
    page.board.controls.freeze.setChecked(True)
    page.board.sight.walk(-1)
    shoot("performance-page-frozen")
    page.board.controls.freeze.setChecked(False)
    _tokens(stage, shoot, page)
    _side_by_side(stage, shoot, page)


def _tokens(stage: Stage, shoot: Shoot, page: PerformancePage) -> None:
    """The tokens in both looks, and the rounds of an answer as the history keeps them."""
    window = stage.window
    catch_up()
    page.scroller.ensureWidgetVisible(page.board.tokens)
    page.board.tokens.setFocus()
    page.board.tokens.key(Qt.Key.Key_Home)
    page.board.tokens.key(Qt.Key.Key_Down)
    shoot("tokens-trace")
    page.board.tokens.show_mode(TokenDisplay.ACCEPTED)
    catch_up()
    shoot("tokens-accepted")
    page.board.tokens.show_mode(TokenDisplay.TRACE)
    page.board.sight.point(None)
    page.scroller.verticalScrollBar().setValue(0)
    _wait_for_threads()  # the rounds are packed
    stage.assembly.replays.show(stage.assembly.session.messages[-1].id)
    _wait_for_threads()
    catch_up()
    shoot("replay")
    window.pages.open(PageName.PERFORMANCE)


def _wait_for_threads() -> None:
    QThreadPool.globalInstance().waitForDone()
    settle()


def _side_by_side(stage: Stage, shoot: Shoot, page: PerformancePage) -> None:
    window, session = stage.window, stage.assembly.session
    found = MachineFound(perf_counter(), replace(MACHINE, accelerators=(_SIMULATED,)))
    stage.tell(found, PlanReady(perf_counter(), _MODEL, MODEL_NAME, _DUO, Load(_MODEL)))
    session.send("How can a draft and a model work at the same time?")
    window.pages.open(PageName.PERFORMANCE)
    stage.stream_side_by_side(_TEXT)
    catch_up()
    shoot("performance-page-duo")
    size = window.size()
    window.resize(_NARROW, size.height())
    catch_up()
    shoot("performance-page-narrow")
    window.resize(size)
    page.scroller.verticalScrollBar().setValue(page.scroller.verticalScrollBar().maximum())
    catch_up()
    shoot("performance-page-graphs")
    page.scroller.verticalScrollBar().setValue(0)
    stage.finish(_TEXT)
    window.pages.show_chat()
    stage.ready()
