"""The Models page: what is on this computer, and what is added from its disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QInputDialog, QWidget
from scripted_hub import Visitor, banner, button, loads

from app.showcase import hub_story as story
from engine.commands import DraftChoice
from engine.hub.shelf.kept_model import ModelOrigin

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def test_the_list_has_ours_and_what_other_programs_have(keeper: Visitor) -> None:
    rows = keeper.page.installed.view.rows
    said = [rows.row(rows.index(n, 0)) for n in range(rows.rowCount())]
    titles = [row.title for row in said if row is not None]
    assert titles == [
        *(model.name for model in story.KEPT if not model.head),
        "Drafts",
        *(model.name for model in story.KEPT if model.head),
        "Found on this disk",
        *(model.name for model in story.ELSEWHERE),
    ]
    QTest.keyClicks(keeper.page.search.field, "gemma3:4b")
    assert [getattr(each, "model", None) for each in rows.entries][1:] == [story.ELSEWHERE[1]]


def test_a_model_is_used_with_the_draft_that_fits(keeper: Visitor) -> None:
    page, model = keeper.page, story.KEPT[1]
    page.installed.view.choose(model.path)
    detail = page.installed.kept
    keeper.until(lambda: detail.drafts.chosen is not None)
    facts = dict(detail.facts.shown)
    assert facts["Quantisation"] == "Q4_K_M"
    assert facts["Licence"] == "apache-2.0"
    keeper.click(detail.use_button)
    keeper.until(lambda: loads(keeper)[-1].model == model.path)
    assert keeper.desk.chat.isVisible()
    settings = keeper.desk.assembly.settings
    keeper.desk.ready()
    keeper.until(lambda: [each.model for each in settings.value.profiles] == [str(model.path)])


def test_the_model_in_use_is_protected_with_a_sentence(keeper: Visitor) -> None:
    page = keeper.page
    page.installed.view.choose(Path("model"))
    detail = page.installed.kept
    assert detail.protected.text().startswith("It is in use")
    assert not detail.use_button.isEnabled()
    assert not detail.delete_button.isVisible()


def test_deleting_tells_the_exact_bytes_and_waits_for_a_yes(keeper: Visitor) -> None:
    page, model = keeper.page, story.KEPT[1]
    page.installed.view.choose(model.path)
    keeper.click(page.installed.kept.delete_button)
    box = keeper.asked()
    assert "5,030,000,000 bytes (5.0\N{NO-BREAK SPACE}GB)" in box.informativeText()
    assert str(model.path) in box.informativeText()
    assert ("delete", model.path) not in keeper.script.done
    keeper.click(button(box, "Delete"))
    keeper.did("delete", model.path)
    keeper.until(lambda: model not in page.installed.view.rows.entries)
    banner(keeper, "Qwen3-8B-Q4_K_M was deleted.")


def test_a_model_is_called_as_the_user_calls_it(keeper: Visitor) -> None:
    page, model, settings = keeper.page, story.KEPT[0], keeper.desk.assembly.settings
    page.installed.view.choose(model.path)
    keeper.click(page.installed.kept.rename_button)
    (dialog,) = keeper.desk.assembly.window.findChildren(QInputDialog)
    dialog.setTextValue("  My   model ")
    dialog.accept()
    keeper.until(lambda: page.installed.kept.title.text() == "My model")
    assert keeper.desk.assembly.bridge.status.model_name == "My model"
    assert settings.value.profiled(model.path).name == "My model"
    page.installed.actions.rename(model, "")
    assert keeper.desk.assembly.bridge.status.model_name == model.name


def test_a_draft_drafts_and_does_not_answer(keeper: Visitor) -> None:
    page, draft = keeper.page, story.KEPT[4]
    answers = loads(keeper)[-1].model
    page.installed.view.choose(draft.path)
    detail = page.installed.kept
    assert detail.use_button.text() == "Use as draft"
    keeper.click(detail.use_button)
    keeper.until(lambda: loads(keeper)[-1].draft == draft.path)
    assert loads(keeper)[-1].model == answers


def test_check_move_and_forget(keeper: Visitor, tmp_path: Path) -> None:
    page, model = keeper.page, story.KEPT[3]
    page.installed.view.choose(model.path)
    detail = page.installed.kept
    keeper.click(detail.check_button)
    keeper.did("check", model.path)
    banner(keeper, "half.gguf is as it should be.")
    keeper.until(lambda: not page._services.shelf.doing)
    page.installed.actions.ask_folder(model)
    (dialog,) = keeper.desk.assembly.window.findChildren(QFileDialog)
    assert dialog.fileMode() is QFileDialog.FileMode.Directory
    dialog.fileSelected.emit(str(tmp_path))
    dialog.close()
    keeper.did("move", model.path, tmp_path)
    keeper.until(lambda: not page._services.shelf.doing)
    keeper.click(detail.forget_button)
    keeper.did("forget", model.path)


def test_what_other_programs_have_is_used_in_place_or_copied(keeper: Visitor) -> None:
    page, model = keeper.page, story.ELSEWHERE[0]
    page.installed.view.choose(model.path)
    detail = page.installed.kept
    assert not detail.use_button.isVisible()
    assert not detail.delete_button.isVisible()
    keeper.click(detail.copy_button)
    keeper.did("copy", model.path)

    def listed() -> bool:
        entries = page.installed.view.rows.entries
        return any(getattr(each, "origin", None) is ModelOrigin.COPIED for each in entries)

    keeper.until(listed)


def drop(page: QWidget, path: Path) -> bool:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    buttons, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    action = Qt.DropAction.CopyAction
    enter = QDragEnterEvent(QPoint(5, 5), action, data, buttons, keys)
    page.dragEnterEvent(enter)
    if enter.isAccepted():
        page.dropEvent(QDropEvent(QPointF(5, 5), action, data, buttons, keys))
    return enter.isAccepted()


def test_add_model_asks_for_a_file_and_then_what_becomes_of_it(
    visitor: Visitor, tmp_path: Path
) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"x")
    visitor.page.add_button.menu().actions()[0].trigger()
    (dialog,) = visitor.page.findChildren(QFileDialog)
    dialog.fileSelected.emit(str(path))
    visitor.click(button(banner(visitor, "Add mine.gguf"), "Copy"))
    visitor.did("copy", path)
    dialog.close()


@pytest.mark.release(keep=1, reason="every file")
@pytest.mark.parametrize("name", ["mine.gguf", "model.safetensors", ""])
def test_a_model_can_be_dropped_on_the_page(visitor: Visitor, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    (path if name else path / "model.safetensors").write_bytes(b"x")
    assert drop(visitor.page, path)
    meant = tmp_path if name != "mine.gguf" else path
    visitor.click(button(banner(visitor, f"Add {meant.name}"), "Use in place"))
    visitor.did("in place", meant)


def test_a_model_that_was_added_is_the_chosen_one(keeper: Visitor, tmp_path: Path) -> None:
    path = tmp_path / "mine.gguf"
    path.write_bytes(b"x")
    keeper.page.offer(path)
    keeper.click(button(banner(keeper, "Add mine.gguf"), "Use in place"))
    shown = keeper.page.installed.kept
    keeper.until(lambda: shown.model is not None and shown.model.path == path)


def test_other_files_are_not_taken(visitor: Visitor, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("x")
    assert not drop(visitor.page, tmp_path / "text.txt")
    assert not drop(visitor.page, tmp_path)  # the files of such a folder are attached


def test_a_hidden_list_does_not_work_at_every_step_of_the_engine(
    keeper: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    tab = keeper.page.installed
    said: list[None] = []
    monkeypatch.setattr(tab.view.rows, "say_anew", lambda: said.append(None))
    desk = keeper.desk
    desk.assembly.window.pages.show_chat()
    desk.type_and_send("Hello")
    desk.answered()
    assert said == []


def test_a_draft_chosen_for_the_model_that_answers_drafts_from_now_on(keeper: Visitor) -> None:
    page, model = keeper.page, story.KEPT[1]
    bridge = keeper.desk.assembly.bridge
    keeper.desk.assembly.models.load(model.path)
    keeper.desk.bot.waitUntil(lambda: bridge.status.model == model.path)
    rows = page.installed.view.rows
    place = next(i for i, each in enumerate(rows.entries) if getattr(each, "path", 0) == model.path)
    page.installed.view.setCurrentIndex(rows.index(place, 0))
    drafts = page.installed.kept.drafts
    keeper.desk.bot.waitUntil(lambda: bool(drafts.buttons))
    none = next(button for button, candidate in drafts.buttons if candidate is None)
    none.click()
    keeper.desk.bot.waitUntil(lambda: loads(keeper)[-1].draft is DraftChoice.NONE)
    assert loads(keeper)[-1].model == model.path
