"""How answers are drawn: the panel, its presets, and the words in the composer."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QAccessible, QWheelEvent
from PySide6.QtWidgets import QApplication, QComboBox, QPushButton, QWidget

from app.chat.sampling.setup_panel import SetupPanel
from app.chat.sampling.setup_words import setup_words, temperature_words
from app.history import ChatSetup
from app.settings import Preset, Settings
from app.settings.presets import BALANCED
from app.showcase.script import PLAN
from engine.commands import Load
from engine.events import PlanReady
from engine.request import SamplingParams

# What a window without a screen cannot do, Qt says for every popup.
pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def panel(desk: Desk) -> SetupPanel:
    desk.chat.open_setup()
    return desk.chat.setup_panel


def choose(shown: SetupPanel, words: str) -> None:
    """Take what the menu beside the presets has under these words."""
    actions = shown.presets.menu_button.menu().actions()
    next(each for each in actions if each.isVisible() and each.text().startswith(words)).trigger()


def words(desk: Desk) -> str:
    return desk.chat.composer.setup_button.toolTip().splitlines()[0]


def test_what_is_not_as_usual_is_said() -> None:
    settings = Settings()
    assert setup_words(ChatSetup(), settings) == ["Temperature 0"]
    setup = ChatSetup(temperature=0.8, seed=7, system_prompt="Be kind.", max_tokens=100)
    assert setup_words(setup, settings) == [
        "Temperature 0.8",
        "seed 7",
        "system prompt",
        "at most 100 tokens",
    ]
    setup = replace(BALANCED.in_use(), temperature=0.0, system_prompt="", seed=7)
    like = replace(settings, presets=(Preset("Mine", replace(setup, system_prompt="x")),))
    setup = replace(setup, preset="Mine", seed=None)
    assert setup_words(setup, like) == ["Mine", "a new seed each time", "no system prompt"]
    changed = replace(BALANCED.in_use(), top_p=0.5)
    assert setup_words(changed, settings) == ["Balanced", "top-p 0.5"]


def test_every_value_of_a_setup_has_its_words() -> None:
    settings = Settings()
    unlike = {"thinking": True, "seen_after": 3, "preset": "gone", "system_prompt": "x"}
    unlike |= {"instructions": False, "tools": ("calculator",)}
    for field in fields(ChatSetup):
        setup = ChatSetup(**{field.name: unlike.get(field.name, 1)})
        silent = field.name in {"thinking", "seen_after", "preset", "top_p", "repetition_penalty"}
        silent |= field.name == "tools"  # the composer has a button of their own for them
        assert (setup_words(setup, settings) == ["Temperature 0"]) == silent, field.name


def test_a_temperature_is_told_in_words() -> None:
    said = [temperature_words(value) for value in (0, 0.3, 0.8, 1.0, 1.5)]
    assert said[0].startswith("Always the most likely")
    assert "close to" in said[1]
    assert len(set(said)) >= 4


def test_the_wheel_turns_a_number_only_where_the_keyboard_is(desk: Desk) -> None:
    shown = panel(desk)
    shown.more_button.click()
    for field in ("top_k", "top_p"):
        row = next(row for row in shown.rows if row.spec.field == field)
        desk.assembly.window.setFocus()
        before = row.value
        for focused in (False, True):
            if focused:
                row.box.setFocus()
            wheel = QWheelEvent(
                QPointF(5, 5), QPointF(5, 5), QPoint(), QPoint(0, -120), Qt.MouseButton.NoButton,
                Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
            )  # fmt: skip
            QApplication.sendEvent(row.box, wheel)
            assert wheel.isAccepted() is focused
        assert before is None or row.value <= before


def test_changes_reach_the_conversation_at_once(desk: Desk) -> None:
    shown = panel(desk)
    desk.bot.keyClick(shown.slider, Qt.Key.Key_Right)
    assert desk.session.setup.temperature == 0.75
    shown.more_button.click()
    row = next(row for row in shown.rows if row.spec.field == "top_k")
    row.box.setValue(40)
    shown.prompt.setPlainText("Be brief.")
    shown.hide()
    assert (desk.session.setup.top_k, desk.session.setup.system_prompt) == (40, "Be brief.")
    assert words(desk) == "Balanced \u00b7 temperature 0.75 \u00b7 system prompt \u00b7 top-k 40"


def test_what_the_model_recommends_is_a_preset_that_nobody_can_change(desk: Desk) -> None:
    own = SamplingParams(0.6, 20, 0.95)
    plan = replace(PLAN, sampling=own)
    desk.tell(PlanReady(0.0, Path("other"), "Other", plan, Load(Path("other"))))
    assert desk.session.setup.sampling(0) == own
    shown = panel(desk)
    assert shown.presets.box.currentText() == "Recommended by the model"
    menu = shown.presets.menu_button.menu()
    told = [each.text() for each in menu.actions() if each.isVisible() and each.text()]
    assert told == ["Save as preset\u2026"]
    shown.slider.setValue(20)
    shown.presets.reset_button.click()
    assert desk.session.setup.sampling(0) == own
    shown.hide()
    desk.session.open(None)
    desk.assembly.settings.change(default_preset="Precise")  # the user's choice goes first
    assert desk.session.setup.temperature == 0


def test_reset_goes_back_to_the_preset(desk: Desk) -> None:
    shown = panel(desk)
    assert not shown.presets.reset_button.isEnabled()
    shown.slider.setValue(20)
    shown.prompt.setPlainText("Be brief.")
    assert "Changed from" in shown.presets.note
    shown.presets.reset_button.click()
    assert desk.session.setup == desk.assembly.settings.value.new_setup()
    assert shown.prompt.toPlainText() == ""
    shown.hide()
    assert desk.session.setup.system_prompt == ""


def test_a_preset_is_chosen_from_the_list(desk: Desk) -> None:
    shown = panel(desk)
    box = shown.presets.box
    assert isinstance(box, QComboBox)
    box.setCurrentIndex(box.findText("Creative"))
    box.activated.emit(box.currentIndex())
    assert desk.session.setup == ChatSetup(preset="Creative", temperature=1.0, min_p=0.05)
    assert words(desk) == "Creative"


def drawn(temperature: float) -> ChatSetup:
    """The balanced setup at another temperature."""
    return replace(BALANCED.setup, temperature=temperature)


def test_values_are_kept_as_a_preset_changed_and_deleted_with_undo(desk: Desk) -> None:
    settings = desk.assembly.settings
    shown = panel(desk)
    shown.slider.setValue(20)
    choose(shown, "Save as preset")
    assert shown.presets.name_field.hasFocus()
    shown.presets.name_field.setText("  Mine ")
    shown.presets.save_button.click()
    assert settings.value.preset("Mine") == Preset("Mine", drawn(1.0))
    assert desk.session.setup.preset == "Mine"
    shown.slider.setValue(30)
    choose(shown, "Update")
    assert settings.value.preset("Mine") == Preset("Mine", drawn(1.5))
    choose(shown, "Use “Mine” for new")
    mine = settings.value.preset("Mine")
    choose(shown, "Delete")
    assert settings.value.preset("Mine") is None
    assert desk.session.setup == drawn(1.5)
    buttons = desk.banners.findChildren(QPushButton)
    undo = [button for button in buttons if button.text() == "Undo"]
    undo[-1].click()
    assert settings.value.preset("Mine") == mine
    assert settings.value.default_preset == "Mine"


def test_a_seed_is_fixed_only_when_it_is_a_number(desk: Desk) -> None:
    shown = panel(desk)
    shown._fixed.click()
    assert desk.session.setup.seed == 42
    shown._seed.clear()
    desk.bot.keyClicks(shown._seed, "7x")
    assert desk.session.setup.seed == 7
    shown._fixed.click()
    assert desk.session.setup.seed is None


def test_thinking_can_be_switched_where_the_model_allows_it(desk: Desk) -> None:
    button = desk.chat.composer.think_button
    assert button.isHidden()
    desk.chat.toggle_thinking()
    assert desk.session.setup.thinking is None, "this model leaves no choice"
    desk.script.plan = replace(desk.script.plan, can_think=True)
    load = desk.assembly.bridge.status.wanted
    assert load is not None
    desk.assembly.bridge.submit(load)
    desk.bot.waitUntil(button.isVisible)
    assert button.isChecked()
    button.click()
    desk.type_and_send("Question")
    desk.answered()
    assert desk.script.requests[-1].thinking is False
    desk.chat.toggle_thinking()
    assert desk.session.setup.thinking is True
    desk.session.set_setup(replace(desk.session.setup, thought_tokens=200))
    desk.type_and_send("Another question")
    desk.answered()
    assert desk.script.requests[-1].thought_tokens == 200


def test_every_control_of_the_panel_has_a_name(desk: Desk) -> None:
    shown = panel(desk)
    shown.more_button.setChecked(True)
    nameless = [
        widget
        for widget in shown.findChildren(QWidget)
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus
        and widget.isVisible()
        and not QAccessible.queryAccessibleInterface(widget).text(QAccessible.Text.Name)
    ]
    assert nameless == []
