"""Choosing what drafts and where, from end to end, on the real engine and a simulated GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QLabel, QRadioButton
from pytestqt.qtbot import QtBot
from traveller import WHOLE, Traveller

from app.engine_link.status import Phase
from app.shell.banner import Banner
from app.theme.theme import Theme
from app.tuning.run_panel import RunPanel
from engine.commands import DraftChoice, Mode
from engine.hub.local import default_target
from engine.model.local_model import LocalModel

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))
from head_folders import write_head
from head_models import small_target

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

QUESTION = "Tell me a short story about a dog."


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A head for the bundled model as `duotail train-draft` writes it; its weights are random."""
    folder = tmp_path_factory.mktemp("heads") / "my head"
    return write_head(folder, "dgf", LocalModel.inspect(default_target()).config)


@pytest.fixture
def guest(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody who tries how a graphics card of 2 GiB would work."""
    result = Traveller(tmp_path, theme, qtbot, simulate_gpu=2 << 30)
    yield result
    result.leave()


def click(widget: QLabel | QRadioButton | object) -> None:
    assert hasattr(widget, "rect")
    QTest.mouseClick(widget, Qt.MouseButton.LeftButton)  # type: ignore[call-overload]


def kept_mode(guest: Traveller) -> Mode | None:
    return next((each.profile.mode for each in guest.assembly.settings.value.profiles), None)


def panel(traveller: Traveller) -> RunPanel:
    """The panel, opened with the mouse."""
    button = traveller.window.run_button
    click(button)
    assert button.panel.isVisible()
    return button.panel


def choose_folder(traveller: Traveller, folder: Path) -> RunPanel:
    """Open the folder as a draft; it is chosen in the panel then, and not applied."""
    opened = panel(traveller)
    click(opened.drafts.folder_button)
    dialog = traveller.window.findChild(QFileDialog)
    assert dialog is not None
    dialog.fileSelected.emit(str(folder))
    dialog.close()
    assert opened.isVisible()
    return opened


def drafts(traveller: Traveller) -> str:
    plan = traveller.assembly.bridge.status.plan
    return plan.draft or "" if plan is not None else ""


def told(traveller: Traveller) -> str:
    banners = traveller.banners.findChildren(Banner)
    return " ".join(banner.accessibleName() for banner in banners)


@pytest.mark.release(reason="a real engine for each way to choose a draft")
def test_a_head_from_a_folder_drafts_and_the_text_stays(traveller: Traveller, head: Path) -> None:
    traveller.start()
    before = traveller.ask(QUESTION).message
    opened = choose_folder(traveller, head)
    assert opened.drafts.rows[head].button.isChecked()
    traveller.bot.keyClick(opened.apply_button, Qt.Key.Key_Return)
    traveller.until(lambda: "my head" in drafts(traveller))
    traveller.session.open(None)
    after = traveller.ask(QUESTION).message
    assert after.text == before.text, "a draft changes the speed, never the text"
    assert after.stats is not None
    assert after.stats.drafted > 0
    value = traveller.assembly.settings.value
    assert [each.drafts for each in value.profiles] == [(str(head),)]
    assert value.profiles[0].profile.draft == head
    click(panel(traveller).drafts.rows[DraftChoice.AUTO].button)
    click(traveller.window.run_button.panel.apply_button)
    traveller.until(lambda: "my head" not in drafts(traveller))
    assert head in panel(traveller).drafts.rows, "it can be taken again with one click"


@pytest.mark.release(reason="a real engine for each way to choose a draft")
def test_what_cannot_draft_is_told_and_the_model_goes_on(
    traveller: Traveller, tmp_path: Path
) -> None:
    """A head of another model, a checkpoint that is never read, a folder with nothing."""
    traveller.start()
    own = drafts(traveller)
    wrong = write_head(tmp_path / "wrong head", "dgf", small_target())
    old = write_head(tmp_path / "old", "eagle2", LocalModel.inspect(default_target()).config)
    (old / "model.safetensors").rename(old / "pytorch_model.bin")
    empty = tmp_path / "empty"
    empty.mkdir()
    for folder, words in ((wrong, "wrong head"), (old, "safetensors"), (empty, "config.json")):
        opened = choose_folder(traveller, folder)
        click(opened.apply_button)
        traveller.until(lambda words=words: words in told(traveller))
        traveller.until(lambda: traveller.assembly.bridge.status.phase is Phase.READY)
        assert drafts(traveller) == own
        traveller.banners.clear()
        traveller.until(lambda: not told(traveller))
    answer = traveller.ask("Hello").message
    assert answer.state in WHOLE
    assert traveller.assembly.settings.value.profiles == ()


def test_dovetail_in_the_middle_of_a_conversation(guest: Traveller, head: Path) -> None:
    guest.start()
    guest.ask("Hello")
    guest.say("Tell me a long story about a dog and a cat.")
    guest.writing()
    opened = choose_folder(guest, head)
    click(opened.modes.rows[Mode.DOVETAIL].button)
    if guest.assembly.bridge.status.busy:
        assert opened.apply_button.text() == "Apply after this answer"
    click(opened.apply_button)
    guest.answered()
    assert guest.session.messages[-1].state in WHOLE, "it was written to its end"
    status = guest.assembly.bridge.status
    guest.until(lambda: kept_mode(guest) is Mode.DOVETAIL)
    guest.until(lambda: guest.assembly.bridge.status.phase is Phase.READY)
    status = guest.assembly.bridge.status
    assert status.plan is not None
    assert status.plan.mode is Mode.DOVETAIL
    assert "Dovetail: head on the simulated GPU, target on the" in guest.chat.status_line.text
    answer = guest.ask("And then?").message
    assert answer.stats is not None
    assert answer.stats.mode == Mode.DOVETAIL
    assert answer.stats.drafted > 0
    assert len(guest.session.messages) == 6, "the same conversation goes on"
    assert guest.session.current is not None
    click(panel(guest).modes.rows[Mode.PLAIN].button)
    click(guest.window.run_button.panel.apply_button)
    guest.until(lambda: kept_mode(guest) is Mode.PLAIN)
    again = guest.ask("Thank you.").message
    assert again.stats is not None
    assert (again.stats.mode, again.stats.drafted) == (Mode.PLAIN, 0)


@pytest.mark.release(reason="a real engine for each way to choose a draft")
def test_a_ceiling_for_the_graphics_memory_holds(guest: Traveller) -> None:
    """Half a GiB with the keyboard alone; the plan stays below it."""
    guest.start()
    guest.keys("Ctrl+Shift+T")
    opened = guest.window.run_button.panel
    opened.modes.rows[Mode.DOVETAIL].button.click()
    guest.until(lambda: opened.choosing.previews.current is not None)
    opened.memory.slider.setFocus()
    guest.keys("Home")
    guest.keys("Right")
    wished = opened.choosing.profile.vram
    guest.keys("Return")
    guest.until(lambda: bool(guest.assembly.settings.value.profiles))
    assert guest.assembly.settings.value.profiles[0].profile.vram == wished
    plan = guest.assembly.bridge.status.plan
    assert plan is not None
    (card,) = [memory for memory in plan.memory if memory.device != "cpu"]
    assert 0 < card.total <= card.budget <= 1 << 29
    assert guest.ask("Hello").message.state in WHOLE


@pytest.mark.release(reason="a real engine for each way to choose a draft")
def test_a_head_that_is_dropped_drafts(traveller: Traveller, head: Path) -> None:
    traveller.start()
    traveller.assembly.models.load_path(head)
    traveller.until(lambda: "my head" in drafts(traveller))
    model = traveller.assembly.bridge.status.wanted
    assert model is not None
    assert model.model == default_target()
