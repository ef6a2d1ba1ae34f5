"""The tuning page on a scripted engine: choosing changes nothing until it is applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QWidget

from app.shell.page_names import PageName
from app.showcase import budgets
from app.showcase import hub_story as story
from app.showcase.budgets import GIB, LAYERS, previewed
from app.showcase.script import PLAN
from app.tuning.tuning_page import TuningPage
from engine.commands import Calibrate, DraftChoice, KvType, Load, Mode, Preview, Stop
from engine.events import (
    DraftHere,
    Failed,
    FailureKind,
    MachineFound,
    PlanSummary,
    WayOut,
)
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.machine.facts import Machine

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

Open = Callable[[Script | None], Desk]


def scripted(machine: Machine = budgets.WITH_CARD, **more: object) -> Script:
    """An engine that plans for a machine, and loads as it plans."""
    told = partial(previewed, machine=machine, speeds=budgets.SPEEDS)

    def plan(load: Load) -> PlanSummary:
        made = told(load).plan
        assert made is not None
        return made

    return Script(preview=told, announce=plan, **more)  # type: ignore[arg-type]


def opened(desk: Desk, machine: Machine = budgets.WITH_CARD) -> TuningPage:
    """The page, once it has what the engine says of the machine."""
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.plan is not None)
    desk.tell(MachineFound(perf_counter(), machine))
    desk.assembly.window.pages.open(PageName.TUNING)
    page = desk.assembly.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)
    planned(desk, page)
    return page


def planned(desk: Desk, page: TuningPage) -> None:
    """Wait until the preview of what is chosen is shown."""
    desk.bot.waitUntil(lambda: page.previews.current is not None)
    page.show_state()


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def said(part: QWidget) -> str:
    labels = [label for label in part.findChildren(QLabel) if label.isVisibleTo(part)]
    return " ".join(label.text() for label in labels)


@pytest.fixture
def card(open_desk: Open) -> Desk:
    """A window on a machine with a graphics card."""
    return open_desk(scripted())


def test_the_page_says_what_is_here_what_runs_and_why(card: Desk) -> None:
    page = opened(card)
    words = said(page.hardware)
    for fact in ("AMD Ryzen 7 5800X", "8 cores", "RTX 3060", "PCIe 4.0 x16", "driver 580.82"):
        assert fact in words
    assert "reads 322 GB/s" in words
    assert page.hardware.measure_button.text() == "Measure again"
    assert page.mode.modes.rows[Mode.AUTO].button.isChecked()
    assert page.mode.modes.rows[Mode.CPU].note.text() == "about 5.9 tokens/s"
    assert "Why Dovetail" in said(page.mode)
    assert page.bar.now.text().startswith("Now: Dovetail: draft on the CPU")
    assert page.bar.change.isHidden()
    assert page.bar.apply_button.isHidden()
    assert len(loads(card)) == 1


def test_reasons_unfold(card: Desk) -> None:
    reasons = opened(card).mode.reasons
    assert "\n" not in reasons.words.text()
    reasons.more.click()
    assert reasons.words.text().count("\n") == 2
    reasons.more.click()
    assert "\n" not in reasons.words.text()


def test_what_cannot_run_here_says_why(open_desk: Open) -> None:
    desk = open_desk(scripted(budgets.WITH_UNUSABLE))
    page = opened(desk, budgets.WITH_UNUSABLE)
    assert not page.memory.budget.slider.isVisibleTo(page)
    assert page.memory.budget.host.isVisibleTo(page), "what the PC's memory is used for"
    assert "AMD Radeon RX 580 is not used" in said(page.memory)
    assert "Not used: this Duotail has no support" in said(page.hardware)
    dovetail = page.mode.modes.rows[Mode.DOVETAIL]
    assert not dovetail.button.isEnabled()
    assert "Needs a GPU" in dovetail.about.text()
    assert page.mode.modes.rows[Mode.AUTO].button.hasFocus(), "there is no slider to begin with"


def test_without_a_card_it_says_so(open_desk: Open) -> None:
    desk = open_desk(scripted(budgets.WITHOUT_CARD))
    page = opened(desk, budgets.WITHOUT_CARD)
    assert "No GPU was found" in said(page.hardware)
    assert "no GPU memory" in said(page.memory)


def test_tab_goes_from_top_to_bottom_without_a_card_too(open_desk: Open) -> None:
    desk = open_desk(scripted(budgets.WITHOUT_CARD))
    page = opened(desk, budgets.WITHOUT_CARD)
    stops = [each for each in page.mode.stops if each.isVisible()]
    assert page.mode.modes.others in stops
    heights = [each.mapTo(page.mode, QPoint()).y() for each in stops]
    assert heights == sorted(heights)
    page.mode.modes.rows[Mode.AUTO].button.setFocus()
    QTest.keyClick(page.mode.modes.rows[Mode.AUTO].button, Qt.Key.Key_Tab)
    assert page.mode.modes.others.hasFocus()


def test_dragging_changes_nothing_until_it_is_applied(card: Desk) -> None:
    page = opened(card)
    slider, memory = page.memory.budget.slider, page.memory.budget
    assert slider.hasFocus()
    assert memory.auto_button.isChecked()
    before = card.assembly.bridge.status.plan
    assert before is not None
    QTest.keyClick(slider, Qt.Key.Key_Left)
    assert memory.lock_button.isChecked()
    QTest.keyClick(slider, Qt.Key.Key_Home)
    assert page.choosing.profile.vram == 0
    assert f"{before.layers_on_gpu} → 0 layers on the GPU" in page.bar.change.text()
    assert "tokens/s" in page.bar.accessibleDescription()
    assert page.bar.apply_button.text() == "Apply"
    planned(card, page)
    assert len(loads(card)) == 1
    assert card.assembly.bridge.status.plan is before
    page.bar.apply_button.setFocus()
    page.bar.apply_button.click()
    assert slider.hasFocus(), "the button goes away, the keyboard stays"
    card.bot.waitUntil(lambda: len(loads(card)) == 2)
    assert loads(card)[-1].vram == 0
    card.bot.waitUntil(lambda: card.assembly.bridge.status.plan is not before)
    planned(card, page)
    assert page.bar.change.isHidden()
    assert not page.choosing.differs


def test_auto_lets_go_of_what_was_locked(card: Desk) -> None:
    page = opened(card)
    page.memory.budget.lock_button.click()
    point = page.memory.budget.model
    assert point is not None
    assert page.choosing.profile.vram == point.knee, "to lock keeps what Auto had chosen"
    assert page.memory.budget.lock_button.text() == "Locked"
    page.memory.budget.auto_button.click()
    assert page.choosing.profile.vram is None
    assert not page.choosing.differs
    assert page.bar.undo_button.isHidden()


def test_a_mode_is_shown_at_once_and_its_reasons_when_they_are_known(card: Desk) -> None:
    page = opened(card)
    budget, reasons = page.memory.budget, page.mode.reasons
    assert budget.model is not None
    before, other = budget.model.main.mode, Mode.DOVETAIL
    assert before is not other
    answer, card.script.preview = card.script.preview, None
    page.choosing.choose(mode=other)
    assert budget.model.main.mode is other
    page.show_state()
    assert budget.model.main.mode is other  # what the engine said of the choice before is older
    assert reasons.title.text() == "Planning…"
    assert not reasons.words.isEnabled()
    card.script.preview = answer
    page.previews.refresh()
    planned(card, page)
    assert reasons.title.text() != "Planning…"
    assert reasons.words.isEnabled()
    assert reasons.words.text()
    page.choosing.undo()
    assert budget.model.main.mode is before


def test_undo_brings_back_what_runs(card: Desk) -> None:
    page = opened(card)
    page.mode.modes.rows[Mode.PLAIN].button.click()
    page.mode.drafts.rows[DraftChoice.AUTO].button.isEnabled()
    assert not page.mode.drafts.isEnabled()
    page.memory.context.setCurrentIndex(2)
    page.memory.context.activated.emit(2)
    assert page.choosing.profile.context == 2048
    planned(card, page)
    assert "Dovetail → Target alone" in page.bar.change.text()
    assert "4,096 → 2,048 tokens" in page.bar.change.text()
    page.bar.undo_button.click()
    assert not page.choosing.differs
    assert page.mode.modes.rows[Mode.AUTO].button.isChecked()
    assert page.memory.context.currentIndex() == 0


def test_the_kv_cache_is_chosen_like_everything_else(card: Desk) -> None:
    page = opened(card)
    box = page.memory.kv
    assert [box.itemText(place) for place in range(box.count())] == ["16 bits", "8 bits"]
    assert box.currentIndex() == 0
    box.activated.emit(1)
    assert page.choosing.profile.kv is KvType.Q8
    planned(card, page)
    page.bar.apply_button.click()
    card.bot.waitUntil(lambda: loads(card)[-1].kv is KvType.Q8)


def test_threads_are_chosen_like_everything_else(card: Desk) -> None:
    page = opened(card)
    box = page.memory.threads
    assert [box.itemText(n) for n in range(3)] == ["Automatic", "1", "2"]
    assert box.count() == 1 + budgets.HOST.threads
    box.activated.emit(3)
    assert page.choosing.profile.threads == 3
    planned(card, page)
    page.bar.apply_button.click()
    card.bot.waitUntil(lambda: loads(card)[-1].threads == 3)


def test_round_numbers_of_context_tell_their_memory(card: Desk) -> None:
    page = opened(card)
    words = [page.memory.context.itemText(n) for n in range(page.memory.context.count())]
    assert words[0] == "Automatic (4,096 tokens)"
    assert words[-1].startswith("32,768 tokens, ")
    assert words[3] == "4,096 tokens, 0.5\N{NO-BREAK SPACE}GiB"


def test_what_does_not_fit_is_refused_in_words_with_ways_out(open_desk: Open) -> None:
    script = scripted()
    fitting = script.preview
    assert fitting is not None
    smaller = replace(budgets.load_of(), context=16384)
    no = Failed(
        *(0.0, None, "It does not fit.", "Close something."),
        kind=FailureKind.OUT_OF_MEMORY,
        ways_out=(WayOut("Context of 16,384 tokens", smaller, 9.8),),
    )
    script.preview = lambda load: (
        previewed(load, budgets.WITH_CARD, refusal=no) if load.context == 32768 else fitting(load)
    )
    desk = open_desk(script)
    page = opened(desk)
    page.choosing.choose(context=32768)
    planned(desk, page)
    assert page.refusal.isVisibleTo(page)
    assert "It does not fit." in said(page.refusal)
    assert page.bar.apply_button.isHidden()
    (way,) = page.refusal.buttons
    assert way.text() == "Context of 16,384 tokens\nabout 9.8 tokens/s"
    way.click()
    planned(desk, page)
    assert page.choosing.profile.context == 16384
    assert not page.refusal.isVisibleTo(page)
    assert page.bar.apply_button.isVisibleTo(page)


def test_after_this_answer_is_the_default_while_one_is_written(open_desk: Open) -> None:
    desk = open_desk(scripted(hold_after=1))
    desk.ready()
    desk.type_and_send("Hello")
    desk.streaming("Hello")
    page = opened(desk)
    page.mode.modes.rows[Mode.CPU].button.click()
    planned(desk, page)
    assert page.bar.apply_button.text() == "Apply after this answer"
    page.bar.apply_button.click()
    assert "when this answer is finished" in page.bar.now.text()
    assert page.bar.apply_button.isHidden()
    assert page.bar.undo_button.isVisibleTo(page)
    assert desk.session.live is not None, "the answer goes on"
    page.bar.undo_button.click()
    assert not page.choosing.differs
    assert not desk.assembly.models.running.pending
    desk.script.gate.set()
    desk.answered()
    desk.bot.waitUntil(lambda: len(loads(desk)) == 3)
    assert [load.mode for load in loads(desk)] == [Mode.AUTO, Mode.CPU, Mode.AUTO]


def test_apply_now_stops_the_answer_and_goes_on_with_it(open_desk: Open) -> None:
    text = "One two three four five six seven eight nine ten eleven twelve."
    desk = open_desk(scripted(hold_after=1, answer=text))
    desk.ready()
    desk.type_and_send("Count")
    desk.streaming("One two")
    page = opened(desk)
    page.mode.modes.rows[Mode.CPU].button.click()
    planned(desk, page)
    assert page.bar.now_button.isVisibleTo(page)
    page.bar.now_button.click()
    desk.bot.waitUntil(lambda: len(desk.script.requests) == 2)
    desk.script.gate.set()
    desk.answered()
    assert desk.session.messages[-1].text == text
    assert [load.mode for load in loads(desk)] == [Mode.AUTO, Mode.CPU]
    assert not loads(desk)[-1].after_answer
    assert desk.script.commands.index(loads(desk)[-1]) < len(desk.script.commands) - 1


def test_apply_now_is_offered_for_the_answer_on_show_only(open_desk: Open) -> None:
    desk = open_desk(scripted(hold_after=1))
    desk.ready()
    desk.type_and_send("Hello")
    desk.streaming("Hello")
    desk.session.open(None)
    page = opened(desk)
    page.mode.modes.rows[Mode.CPU].button.click()
    assert page.bar.now_button.isHidden()
    assert page.bar.apply_button.text() == "Apply after this answer"
    desk.script.gate.set()
    desk.bot.waitUntil(lambda: desk.session.live is None)


def test_measuring_shows_how_far_it_is_and_can_be_called_off(open_desk: Open) -> None:
    script = scripted()
    script.preview = partial(previewed, machine=budgets.WITH_CARD)
    desk = open_desk(script)
    page = opened(desk)
    hardware = page.hardware
    assert "Not measured yet" in hardware.state.text()
    assert hardware.measure_button.text() == "Measure now"
    hardware.measure_button.click()
    assert Calibrate() in desk.script.commands
    desk.bot.waitUntil(lambda: hardware.cancel_button.isVisibleTo(page))
    assert hardware.progress.isVisibleTo(page)
    assert hardware.measure_button.isHidden()
    hardware.cancel_button.click()
    desk.bot.waitUntil(lambda: hardware.measure_button.isVisibleTo(page))
    assert Stop() in desk.script.commands
    assert hardware.measure_button.isEnabled()


def test_what_was_measured_leads_to_another_plan(open_desk: Open) -> None:
    """After a measurement the same wish may come to something else: that is offered, not done."""
    script = scripted(speeds=budgets.SPEEDS)
    script.announce = lambda _load: replace(PLAN, layers=LAYERS, context=4096)
    desk = open_desk(script)
    page = opened(desk)
    assert page.bar.change.text().startswith("New plan: CPU → Dovetail, 0 → ")
    assert page.bar.apply_button.text() == "Plan again"
    page.bar.apply_button.click()
    desk.bot.waitUntil(lambda: len(loads(desk)) == 2)
    assert replace(loads(desk)[1], after_answer=False) == loads(desk)[0]


def test_nothing_is_asked_while_nobody_looks(card: Desk) -> None:
    page = opened(card)

    def asked() -> int:
        return sum(isinstance(command, Preview) for command in card.script.commands)

    count = asked()
    card.assembly.window.pages.show_chat()
    page.choosing.choose(mode=Mode.CPU)
    page.previews.refresh()
    assert not page.previews._timer.isActive()
    assert asked() == count
    card.assembly.window.pages.open(PageName.TUNING)
    planned(card, page)
    assert asked() == count + 1


def test_the_panel_leads_to_the_page_with_what_was_begun_in_it(card: Desk) -> None:
    opened(card)
    card.assembly.window.pages.show_chat()
    card.assembly.window.run_button.open_panel()
    panel = card.assembly.window.run_button.panel
    panel.modes.rows[Mode.DUO].button.click()
    panel.page_button.click()
    assert not panel.isVisible()
    page = card.assembly.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)
    assert card.assembly.window.pages.shown is PageName.TUNING
    assert page.choosing.profile.mode is Mode.DUO
    assert len(loads(card)) == 1


def test_a_draft_is_opened_from_the_page(card: Desk, tmp_path: Path) -> None:
    page = opened(card)
    page.mode.drafts.folder_button.click()
    dialog = card.assembly.window.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(tmp_path))
    dialog.reject()
    assert page.choosing.profile.draft == tmp_path
    assert page.mode.drafts.rows[tmp_path].button.isChecked()
    assert len(loads(card)) == 1


def test_measured_speeds_are_on_the_view(card: Desk) -> None:
    page = opened(card)
    plan = card.assembly.bridge.status.plan
    assert plan is not None
    card.assembly.window.pages.show_chat()
    card.script.answer = "word " * 40
    card.type_and_send("Say something long")
    card.answered()
    card.bot.waitUntil(lambda: bool(card.assembly.measured.all))
    card.assembly.window.pages.open(PageName.TUNING)
    planned(card, page)
    model = page.memory.budget.model
    assert model is not None
    point = model.measured[-1]
    assert point.tokens_per_s == card.assembly.measured.all[0].tokens_per_s
    assert point.when_words == "just now"
    assert f"{point.tokens_per_s:.1f} measured" in page.bar.now.text()


def test_what_arrows_go_to_comes_into_view(card: Desk) -> None:
    card.assembly.window.resize(1000, 520)
    page = opened(card)
    area, drafts = page.scroller, page.mode.drafts.rows
    page.mode.modes.rows[Mode.AUTO].button.setFocus()
    area.verticalScrollBar().setValue(0)
    drafts[DraftChoice.AUTO].button.setFocus()
    for way in (Qt.Key.Key_Down, Qt.Key.Key_Up):
        for _ in range(len(drafts) - 1):
            QTest.keyClick(QApplication.focusWidget(), way)
            focus = QApplication.focusWidget()
            assert focus is not None
            row = focus.parentWidget()
            assert row in drafts.values()
            top = row.mapTo(area.viewport(), QPoint()).y()
            assert 0 <= top <= area.viewport().height() - row.height()


def test_everything_is_reached_with_tab(card: Desk) -> None:
    page = opened(card)
    page.memory.budget.lock_button.click()
    planned(card, page)
    wanted = {
        page.memory.budget.slider,
        page.memory.budget.auto_button,
        page.memory.budget.lock_button,
        page.memory.context,
        page.memory.kv,
        page.memory.threads,
        page.mode.modes.rows[Mode.AUTO].button,
        page.mode.drafts.rows[DraftChoice.AUTO].button,
        page.mode.drafts.folder_button,
        page.mode.drafts.file_button,
        page.mode.reasons.more,
        page.hardware.measure_button,
        page.bar.undo_button,
        page.bar.apply_button,
    }
    met: set[QWidget] = set()
    for _ in range(60):
        focus = QApplication.focusWidget()
        assert focus is not None
        met.add(focus)
        assert focus.accessibleName() or focus.property("text"), focus
        QTest.keyClick(focus, Qt.Key.Key_Tab)
    assert not {part.accessibleName() or part.property("text") for part in wanted - met}


def test_a_draft_that_was_downloaded_is_listed_and_takes_nothing_from_the_user(
    card: Desk, tmp_path: Path
) -> None:
    page, script = opened(card), card.script
    lookup = page.mode.drafts.rows[DraftChoice.LOOKUP].button
    lookup.setFocus()
    lookup.click()
    card.assembly.models.running.changed.emit()
    planned(card, page)  # nothing else is to be shown
    chosen = page.choosing.profile
    small = tmp_path / "small.gguf"
    script.drafts = (DraftHere(small, "Small"),)
    script.hub.kept = (KeptModel(small, "Small", ModelOrigin.DOWNLOADED, 1),)
    downloads = card.assembly.model_manager.services.hub
    downloads.go_on()
    card.bot.waitUntil(lambda: script.scripted_hub is not None)
    assert script.scripted_hub is not None
    script.scripted_hub.tell(story.UNDER_WAY[-1])
    rows = [DraftChoice.AUTO, small, DraftChoice.LOOKUP, DraftChoice.NONE]
    card.bot.waitUntil(lambda: list(page.mode.drafts.rows) == rows)
    assert lookup.hasFocus()
    assert lookup.isChecked()
    assert page.choosing.profile == chosen
    assert len(loads(card)) == 1
    QTest.keyClick(lookup, Qt.Key.Key_Up)
    assert page.choosing.profile.draft == small

    def in_order() -> bool:
        heights = [row.y() for row in page.mode.drafts.rows.values()]
        return heights == sorted(set(heights))

    card.bot.waitUntil(in_order)


def test_another_model_forgets_what_was_chosen(card: Desk) -> None:
    page = opened(card)
    page.choosing.choose(mode=Mode.PLAIN, vram=GIB)
    card.assembly.bridge.submit(Load(Path("other")))
    card.bot.waitUntil(lambda: not page.choosing.differs)
    assert page.choosing.profile.mode is Mode.AUTO
    planned(card, page)


def test_without_a_model_there_is_nothing_to_choose(open_desk: Open) -> None:
    no = Failed(0.0, None, "There is no model.", "")
    desk = open_desk(scripted(fail_load=no))
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.phase.value == "no model")
    desk.assembly.window.pages.open(PageName.TUNING)
    page = desk.assembly.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)
    assert page.bar.now.text() == "Open a model to choose how it runs."
    assert page.bar.apply_button.isHidden()
