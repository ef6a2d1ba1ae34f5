"""The panel that says how the model runs, worked with keys and mouse."""

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
from PySide6.QtWidgets import QApplication, QFileDialog, QLabel, QRadioButton

from app.settings.file import save
from app.settings.model import Settings
from app.settings.profiles import GIB, ModelProfile, ProfiledModel
from app.shell.page_names import PageName
from app.showcase import budgets
from app.showcase.script import MACHINE, MODEL_NAME
from app.tuning.run_panel import RunPanel
from app.tuning.tuning_page import TuningPage
from engine.commands import DraftChoice, Load, Mode
from engine.events import (
    AcceleratorSample,
    DeviceSample,
    DraftHere,
    Failed,
    MachineFound,
    PlanReady,
)
from engine.machine.facts import Accelerator, Machine

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

CARD = Accelerator(
    "simulated:0",
    "Simulated GPU",
    memory_total=4 * GIB,
    memory_free=4 * GIB,
    simulated=True,
)
WITH_CARD = replace(MACHINE, accelerators=(CARD,))


def opened(desk: Desk, machine: Machine = WITH_CARD) -> RunPanel:
    desk.bot.waitUntil(lambda: desk.assembly.bridge.status.plan is not None)
    desk.tell(MachineFound(perf_counter(), machine))
    speeds = budgets.SPEEDS if machine.accelerators else None
    desk.script.preview = partial(budgets.previewed, machine=machine, speeds=speeds)
    QTest.keySequence(desk.assembly.window, "Ctrl+Shift+T")
    panel = desk.assembly.window.run_button.panel
    assert panel.isVisible()
    desk.bot.waitUntil(lambda: panel.choosing.previews.current is not None)
    return panel


def said(panel: RunPanel) -> str:
    labels = [label for label in panel.findChildren(QLabel) if label.isVisibleTo(panel)]
    return " ".join(label.text() for label in labels)


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def press(key: Qt.Key) -> None:
    focus = QApplication.focusWidget()
    assert focus is not None
    QTest.keyClick(focus, key)


def test_everything_can_be_chosen_with_keys(desk: Desk) -> None:
    panel = opened(desk)
    assert panel.modes.rows[Mode.AUTO].button.hasFocus()
    press(Qt.Key.Key_Down)
    assert panel.choosing.profile == ModelProfile(Mode.DOVETAIL)
    press(Qt.Key.Key_Tab)
    assert panel.drafts.rows[DraftChoice.AUTO].button.hasFocus()
    press(Qt.Key.Key_Down)
    assert panel.choosing.profile.draft is DraftChoice.LOOKUP
    while QApplication.focusWidget() is not panel.memory.slider:
        press(Qt.Key.Key_Tab)
    press(Qt.Key.Key_Home)
    press(Qt.Key.Key_Right)
    vram = panel.choosing.profile.vram
    assert vram
    desk.bot.waitUntil(panel.apply_button.isEnabled)
    assert len(loads(desk)) == 1, "nothing happens before it is applied"
    press(Qt.Key.Key_Return)
    assert not panel.isVisible()
    desk.bot.waitUntil(lambda: len(loads(desk)) == 2)
    asked = loads(desk)[-1]
    wish = ModelProfile(Mode.DOVETAIL, DraftChoice.LOOKUP, vram)
    assert ModelProfile.of(asked) == wish
    desk.bot.waitUntil(lambda: desk.assembly.models.running.profile == wish)
    assert desk.assembly.window.run_button.text().startswith("Dovetail")


def test_tab_goes_to_what_is_chosen_of_modes_and_drafts(desk: Desk) -> None:
    """Not to the first of each, which has never had the keyboard."""
    panel = opened(desk)
    panel.modes.rows[Mode.CPU].button.click()
    panel.drafts.rows[DraftChoice.LOOKUP].button.click()
    panel.apply_button.setFocus()
    met = []
    for _ in range(20):
        press(Qt.Key.Key_Tab)
        focus = QApplication.focusWidget()
        if isinstance(focus, QRadioButton):
            met.append(focus)
    rows = panel.modes.rows[Mode.CPU], panel.drafts.rows[DraftChoice.LOOKUP]
    assert met[:2] == [row.button for row in rows]


def test_return_on_a_button_of_the_panel_presses_it(desk: Desk) -> None:
    panel = opened(desk)
    panel.modes.rows[Mode.CPU].button.click()
    assert panel.apply_button.isEnabled()
    panel.drafts.file_button.setFocus()
    press(Qt.Key.Key_Return)
    dialog = desk.assembly.window.findChild(QFileDialog)
    assert dialog is not None
    assert len(loads(desk)) == 1, "nothing was applied"
    dialog.close()


def test_escape_changes_nothing(desk: Desk) -> None:
    panel = opened(desk)
    panel.modes.rows[Mode.PLAIN].button.click()
    assert panel.apply_button.isEnabled()
    press(Qt.Key.Key_Escape)
    assert not panel.isVisible()
    assert len(loads(desk)) == 1
    assert opened(desk).choosing.profile == ModelProfile()


def test_a_click_on_the_sentence_chooses_too(desk: Desk) -> None:
    panel = opened(desk)
    row = panel.modes.rows[Mode.CPU]
    QTest.mouseClick(row, Qt.MouseButton.LeftButton, pos=QPoint(60, row.height() - 4))
    assert panel.choosing.profile.mode is Mode.CPU
    assert not panel.memory.body.isEnabled()
    duo = panel.modes.rows[Mode.DUO]
    QTest.mouseClick(duo, Qt.MouseButton.LeftButton, pos=QPoint(60, duo.height() - 4))
    assert panel.choosing.profile.mode is Mode.DUO
    assert "at the same time" in duo.about.text()
    assert panel.memory.body.isEnabled()
    panel.modes.rows[Mode.PLAIN].button.click()
    assert not panel.drafts.isEnabled()


def test_duo_without_a_draft_model_says_what_is_missing(desk: Desk) -> None:
    panel = opened(desk)
    duo = panel.modes.rows[Mode.DUO]
    for draft in (DraftChoice.LOOKUP, DraftChoice.NONE):
        panel.drafts.rows[draft].button.click()
        assert not duo.button.isEnabled()
        assert "Needs a draft model" in duo.about.text()
        assert duo.button.accessibleDescription() == duo.about.text()
    panel.drafts.rows[DraftChoice.AUTO].button.click()
    duo.button.click()
    assert panel.choosing.profile == ModelProfile(Mode.DUO)
    panel.drafts.rows[DraftChoice.NONE].button.click()
    assert duo.button.isEnabled(), "what is chosen stays so until something else is"
    assert "Needs a draft model" in duo.about.text()


def test_the_models_own_head_is_offered_or_said_to_be_missing(desk: Desk) -> None:
    """None of it where models of the family bring none."""
    panel = opened(desk)
    assert DraftChoice.MTP not in panel.drafts.rows
    load = Load(Path("model"))
    for has_mtp in (False, True):
        plan = replace(desk.script.plan, has_mtp=has_mtp)
        desk.tell(PlanReady(perf_counter(), load.model, MODEL_NAME, plan, load))
        row = panel.drafts.rows[DraftChoice.MTP]
        assert row.button.isEnabled() is has_mtp
        assert ("This file has no MTP head." in row.about.text()) is not has_mtp
        assert ("drafts" in row.button.accessibleDescription()) is has_mtp
    row.button.click()
    assert panel.choosing.profile.draft is DraftChoice.MTP


def test_without_a_graphics_card_two_modes_say_what_is_missing(desk: Desk) -> None:
    old = Accelerator("", "RX 580", unusable="this torch is built for NVIDIA")
    panel = opened(desk, replace(MACHINE, accelerators=(old,)))
    for mode in (Mode.DOVETAIL, Mode.DUO):
        row = panel.modes.rows[mode]
        assert not row.button.isEnabled()
        assert "there is none here" in row.about.text()
    assert "RX 580 is not used: this torch is built for NVIDIA." in said(panel)
    assert not panel.memory.slider.isVisible()


def test_what_is_in_force_is_said_with_the_simulation_named(desk: Desk) -> None:
    head = Path("heads/dgf")
    load = Load(Path("model"), head, Mode.DOVETAIL, vram=3 * GIB)
    plan = replace(
        desk.script.plan,
        mode=Mode.DOVETAIL,
        draft="DGF head",
        draft_device=CARD.name,
        layers=8,
        layers_on_gpu=3,
    )
    machine = replace(MACHINE, accelerators=(CARD,))
    now = perf_counter()
    desk.tell(MachineFound(now, machine), PlanReady(now, load.model, MODEL_NAME, plan, load))
    panel = opened(desk)
    where = "target on the simulated GPU (3 of 8 layers) and the CPU"
    sentence = f"Dovetail: DGF head on the simulated GPU, {where}"
    assert sentence in said(panel)
    assert panel.drafts.rows[head].button.isChecked()
    assert panel.drafts.rows[head].button.text() == "dgf"
    assert panel.choosing.profile.vram == 3 * GIB
    assert not panel.apply_button.isEnabled()
    panel.hide()
    shown = [label.text() for label in desk.chat.greeting.findChildren(QLabel)]
    assert any(sentence in text for text in shown)


def test_a_folder_is_chosen_and_applied(desk: Desk, tmp_path: Path) -> None:
    folder = tmp_path / "a head with a name that is much longer than the panel is wide, by far & so"
    folder.mkdir()
    panel = opened(desk)
    panel.modes.rows[Mode.DOVETAIL].button.click()
    panel.drafts.folder_button.click()
    window = desk.assembly.window
    desk.bot.waitUntil(lambda: window.findChild(QFileDialog) is not None)
    assert not panel.isVisible()
    dialog = window.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(folder))
    dialog.close()
    assert panel.isVisible()
    assert panel.choosing.profile == ModelProfile(Mode.DOVETAIL, folder)
    row = panel.drafts.rows[folder]
    assert row.button.isChecked()
    assert row.button.fontMetrics().horizontalAdvance(row.button.text()) < panel.width()
    assert row.button.accessibleName() == folder.name
    assert panel.apply_button.hasFocus()
    press(Qt.Key.Key_Return)
    desk.bot.waitUntil(lambda: loads(desk)[-1].draft == folder)
    desk.bot.waitUntil(lambda: desk.assembly.models.running.drafts == [folder])


def test_drafts_on_this_disk_stay_in_the_list_whatever_is_chosen(
    open_desk: Callable[[Script | None], Desk], tmp_path: Path
) -> None:
    """In one order, also those that were chosen once and are not among those found."""
    here = tuple(DraftHere(tmp_path / name, name) for name in ("small", "large"))
    other = tmp_path / "another"
    kept = ProfiledModel("model", ModelProfile(draft=DraftChoice.LOOKUP), (str(other),))
    save(tmp_path / "config" / "settings.toml", Settings(profiles=(kept,)))
    desk = open_desk(Script(drafts=here))
    desk.ready()
    running = desk.assembly.models.running
    desk.bot.waitUntil(lambda: running.drafts_found == here)
    panel = opened(desk)
    paths = [*(each.path for each in here), other]
    rows = [DraftChoice.AUTO, *paths, DraftChoice.LOOKUP, DraftChoice.NONE]
    assert list(panel.drafts.rows) == rows
    for choice in (here[1].path, other, DraftChoice.NONE, here[0].path, DraftChoice.LOOKUP):
        panel.drafts.rows[choice].button.click()
        assert list(panel.drafts.rows) == rows
        desk.bot.waitUntil(lambda: panel.choosing.previews.current is not None)
        panel.apply()
        desk.bot.waitUntil(lambda: running.in_force == ModelProfile(draft=choice))  # noqa: B023
        desk.ready()
        opened(desk)
        assert list(panel.drafts.rows) == rows
        assert panel.drafts.rows[choice].button.isChecked()
    assert panel.drafts.rows[here[0].path].button.text() == "small"


def test_what_automatic_comes_to_is_said_while_it_is_chosen_only(desk: Desk) -> None:
    panel = opened(desk)
    automatic = panel.drafts.rows[DraftChoice.AUTO]
    assert automatic.about.text().startswith("Now: ")
    panel.drafts.rows[DraftChoice.LOOKUP].button.click()
    assert automatic.about.text().startswith("The model's own draft")
    desk.bot.waitUntil(lambda: panel.choosing.previews.current is not None)
    panel.apply()
    desk.bot.waitUntil(lambda: loads(desk)[-1].draft is DraftChoice.LOOKUP)
    desk.ready()
    opened(desk)
    assert automatic.about.text().startswith("The model's own draft"), "lookup is in force"
    automatic.button.click()
    assert automatic.about.text().startswith("The model's own draft"), "lookup's is the last plan"
    desk.bot.waitUntil(lambda: automatic.about.text().startswith("Now: "))


def test_a_draft_file_is_chosen(desk: Desk, tmp_path: Path) -> None:
    panel = opened(desk)
    panel.drafts.file_button.click()
    dialog = desk.assembly.window.findChild(QFileDialog)
    assert dialog is not None
    assert dialog.fileMode() is QFileDialog.FileMode.ExistingFile
    assert any("*.gguf" in each for each in dialog.nameFilters())
    dialog.fileSelected.emit(str(tmp_path / "small.gguf"))
    dialog.close()
    assert panel.choosing.profile.draft == tmp_path / "small.gguf"


def test_the_menu_and_the_page_share_one_choice(desk: Desk) -> None:
    panel = opened(desk)
    panel.modes.rows[Mode.PLAIN].button.click()
    panel.page_button.setFocus()
    press(Qt.Key.Key_Return)
    assert desk.assembly.window.pages.shown is PageName.TUNING
    page = desk.assembly.window.pages.page(PageName.TUNING)
    assert isinstance(page, TuningPage)
    assert page.choosing is panel.choosing
    assert page.mode.modes.rows[Mode.PLAIN].button.isChecked()
    desk.assembly.window.run_button.open_panel()
    panel.modes.rows[Mode.CPU].button.click()
    panel.hide()
    assert page.mode.modes.rows[Mode.PLAIN].button.isChecked(), "closing goes back to what was"


def test_what_cannot_be_is_said_before_it_is_applied(desk: Desk) -> None:
    panel = opened(desk)
    fitting = desk.script.preview
    assert fitting is not None
    no = Failed(0.0, None, "Mode “duo” needs a draft model.", "Choose another mode.")
    desk.script.preview = lambda load: (
        budgets.previewed(load, WITH_CARD, refusal=no) if load.mode is Mode.DUO else fitting(load)
    )
    panel.modes.rows[Mode.DUO].button.click()
    desk.bot.waitUntil(lambda: panel.refusal.isVisibleTo(panel))
    assert no.cause in said(panel)
    assert not panel.apply_button.isEnabled()
    panel.modes.rows[Mode.PLAIN].button.click()
    desk.bot.waitUntil(lambda: not panel.refusal.isVisibleTo(panel))
    assert panel.apply_button.isEnabled()


def test_memory_that_others_take_is_asked_about_again(desk: Desk) -> None:
    panel = opened(desk)
    card = AcceleratorSample(
        CARD.device, CARD.name, memory_used=GIB, memory_ours=0, memory_total=4 * GIB
    )
    sample = DeviceSample(perf_counter(), None, None, None, None, (card,))
    little = replace(card, memory_used=GIB + 2**20)
    for each in (card, little):
        desk.tell(replace(sample, accelerators=(each,)))
        assert panel.choosing.previews.current is not None
    more = replace(card, memory_used=2 * GIB)
    desk.tell(replace(sample, accelerators=(more,)))
    assert panel.choosing.previews.current is None
    desk.bot.waitUntil(lambda: panel.choosing.previews.current is not None)


def test_in_a_narrow_window_the_menu_of_the_model_leads_there(desk: Desk) -> None:
    window = desk.assembly.window
    window.resize(440, 700)
    desk.bot.waitUntil(lambda: not window.run_button.isVisible())
    menu = window.model_button.make_menu()
    (entry,) = [each for each in menu.actions() if each.text().startswith("Mode, draft")]
    entry.trigger()
    panel = window.run_button.panel
    assert panel.isVisible()
    screen = panel.screen().availableGeometry()
    assert screen.contains(panel.frameGeometry())
    panel.hide()
    window.resize(1280, 800)
    desk.bot.waitUntil(window.run_button.isVisible)


def test_while_an_answer_is_written_the_button_says_when(desk: Desk) -> None:
    desk.script.hold_after = 1
    desk.type_and_send("Hello")
    desk.streaming("Hello!")
    panel = opened(desk)
    assert panel.apply_button.text() == "Apply after this answer"
    panel.modes.rows[Mode.PLAIN].button.click()
    desk.script.gate.set()
    desk.answered()
    desk.bot.waitUntil(lambda: panel.apply_button.text() == "Apply")
    assert panel.choosing.profile.mode is Mode.PLAIN, "what was chosen stays chosen"
