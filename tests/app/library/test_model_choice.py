"""Choosing the model: the menu, what is loaded, what the next start loads."""

from __future__ import annotations

from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu

from app.library.choice import ModelChoice
from app.library.installed import installed
from engine.commands import DraftChoice, Load, Unload
from engine.errors import UserFixable
from engine.hub.local import bundled_models_root, bundled_target

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def menu_of(desk: Desk) -> dict[str, QAction]:
    desk.bot.waitUntil(lambda: len(desk.assembly.models.models) >= 2)
    menu: QMenu = desk.assembly.window.model_button.make_menu()
    return {action.text(): action for action in menu.actions()}


def loads(desk: Desk) -> list[Load]:
    return [command for command in desk.script.commands if isinstance(command, Load)]


def test_the_bundled_models_are_listed_and_one_of_them_loads(desk: Desk) -> None:
    actions = menu_of(desk)
    (name,) = [text for text in actions if text.startswith("Duotail 7M")]
    actions[name].trigger()
    desk.bot.waitUntil(lambda: loads(desk)[-1].model == bundled_target())
    assert menu_of(desk)[name].isChecked()
    assert desk.assembly.settings.value.model == str(bundled_target())


def test_switching_the_draft_off_loads_the_same_model_alone(desk: Desk) -> None:
    before = loads(desk)[-1]
    menu_of(desk)["No draft: the model alone"].trigger()
    desk.bot.waitUntil(lambda: len(loads(desk)) == 2)
    assert loads(desk)[-1] == Load(before.model, draft=DraftChoice.NONE)
    menu_of(desk)["No draft: the model alone"].trigger()
    menu_of(desk)["Draft automatically"].trigger()
    desk.bot.waitUntil(lambda: len(loads(desk)) == 3)
    assert loads(desk)[-1].draft is DraftChoice.AUTO


def test_a_model_can_be_taken_out_of_memory(desk: Desk) -> None:
    menu_of(desk)["Take the model out of memory"].trigger()
    desk.bot.waitUntil(lambda: any(isinstance(each, Unload) for each in desk.script.commands))


def test_a_folder_without_a_model_is_refused_in_words(desk: Desk, tmp_path: Path) -> None:
    told: list[UserFixable] = []
    desk.assembly.models.problem.connect(told.append)
    before = loads(desk)
    desk.assembly.models.load_folder(tmp_path)
    desk.bot.waitUntil(lambda: bool(told))
    assert told[0].cause
    assert loads(desk) == before


def test_the_next_start_loads_what_was_used_unless_it_is_gone(desk: Desk, tmp_path: Path) -> None:
    choice: ModelChoice = desk.assembly.models
    settings = desk.assembly.settings
    settings.change(model=str(tmp_path), draft=DraftChoice.LOOKUP)
    assert choice.first_load(bundled_target) == Load(tmp_path, draft=DraftChoice.LOOKUP)
    settings.change(model=str(tmp_path / "gone"))
    assert choice.first_load(bundled_target).model == bundled_target()


def test_recent_folders_follow_the_bundled_models_and_the_unusable_are_left_out(
    tmp_path: Path,
) -> None:
    copy = tmp_path / "mine"
    copy.mkdir()
    for file in bundled_target().iterdir():
        (copy / file.name).symlink_to(file)
    found = installed([copy, tmp_path / "gone"])
    assert [model.path for model in found][-1] == copy
    assert {model.path.parent for model in found[:-1]} == {bundled_models_root()}
    assert all(model.weight_bytes > 0 for model in found)
