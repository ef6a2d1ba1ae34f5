"""Smaller things to do on the Models page: narrow, choose again, open pages, use, stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from scripted_hub import Visitor, banner, loads

from app.models.file_chooser import dropped_model
from app.models.hub import Doing, LocalModels
from app.models.model_texts import speed_words
from app.models.search_bar import ModelsTab
from app.models.token_dialog import TokenDialog
from app.showcase import hub_story as story
from engine.errors import Cancelled, UserFixable
from engine.hub.advice import Badge, Fit
from engine.hub.messages import Access, Refused, Search
from engine.hub.remote.faults import Fault

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses that a browser would show."""
    found: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: found.append(url.toString()))
    return found


def test_pages_of_the_web_are_opened(visitor: Visitor, opened: list[str]) -> None:
    visitor.click(visitor.page.recommended.suggested.page_button)
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    visitor.click(visitor.page.searching.remote.page_button)
    assert opened == [f"https://huggingface.co/{story.QWEN3_8B.repo}"] * 2


def test_a_suggestion_without_a_draft_is_one_download(visitor: Visitor) -> None:
    shown = visitor.page.recommended.suggested
    visitor.until(lambda: shown.suggestion is not None)
    assert shown.suggestion is not None
    shown.show_suggestion(replace(shown.suggestion, draft=None, draft_repo=None))
    assert shown.download_button.text().startswith("Download (")
    assert not shown.alone_button.isVisible()
    assert shown.draft.text() == ""
    visitor.click(shown.download_button)
    visitor.did("add", story.QWEN3_8B.repo, None)


def test_a_search_is_narrowed_and_what_was_described_is_there_at_once(visitor: Visitor) -> None:
    bar, searching = visitor.page.search, visitor.page.searching
    visitor.go_to(ModelsTab.SEARCH)
    bar.order_box.activated.emit(1)
    assert not visitor.script.asked, "nothing was searched for yet"
    visitor.find("qwen3")
    visitor.choose(story.QWEN3_8B)
    asked = len(visitor.script.asked)
    searching.view.choose(story.LLAMA.repo)
    searching.view.choose(story.QWEN3_8B.repo)
    assert searching.remote.repository is story.REPOSITORY
    bar.packaging_box.setCurrentIndex(1)
    bar.packaging_box.activated.emit(1)

    def searches() -> list[Search]:  # the page may ask for the draft of a model meanwhile
        return [each for each in visitor.script.asked[asked:] if isinstance(each, Search)]

    visitor.until(lambda: bool(searches()))
    assert searches()[-1].packaging is not None
    bar.field.setFocus()
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert bar.field.text() == ""
    assert visitor.page.isVisible()
    searching.view.setFocus()
    QTest.keyClick(searching.view, Qt.Key.Key_Home)
    assert searching.view.currentIndex().row() == 0
    QTest.keyClick(searching.view, Qt.Key.Key_Escape)
    assert not visitor.page.isVisible(), "it leads back to the chat"


def test_a_search_that_needs_a_token_asks_for_it_and_one_is_taken_away(visitor: Visitor) -> None:
    question = Search(Access(), "qwen3")
    visitor.script.refusal = Refused(question, Fault.SIGN_IN, "Only with a token.", "Enter one.")
    visitor.find("qwen3")
    visitor.script.token = "hf_old"
    searching = visitor.page.searching
    visitor.until(lambda: "Only with a token." in searching.words.text())
    visitor.click(searching.action)
    dialogs = [each for each in QApplication.topLevelWidgets() if isinstance(each, TokenDialog)]
    (dialog,) = [each for each in dialogs if each.isVisible()]
    visitor.click(dialog.remove_button)
    visitor.until(lambda: not visitor.script.token)


def test_a_question_that_cannot_even_be_put_is_told(
    visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(_tokens: object) -> None:
        raise UserFixable("The keyring is locked.", "Unlock it.")

    monkeypatch.setattr("app.showcase.hub._Tokens.read", locked)
    visitor.find("qwen3")
    assert "The keyring is locked." in visitor.page.searching.words.text()


def test_work_with_a_model_is_one_thing_at_a_time_is_stopped_and_told(keeper: Visitor) -> None:
    shelf, begun = keeper.page._services.shelf, Event()

    def until_stopped(_models: LocalModels, doing: Doing) -> object:
        while not doing.stopped():
            begun.set()
        raise Cancelled

    def broken(_models: LocalModels, _doing: Doing) -> object:
        raise OSError("the drive is gone")

    shelf.work("Waiting", until_stopped)
    shelf.work("Breaking", broken)
    assert shelf.doing == "Waiting"
    assert begun.wait(60)
    shelf.stop()
    keeper.until(lambda: not shelf.doing)
    assert keeper.desk.banners.texts == []
    shelf.work("Breaking", broken)
    told = banner(keeper, "A file or folder could not be used.")
    assert not shelf.doing
    assert told.isVisible()


def test_a_double_click_uses_a_model_and_nothing_matches_is_said(keeper: Visitor) -> None:
    page, model = keeper.page, story.KEPT[1]
    page.search.field.setText("no such model")
    assert page.installed.words.isVisible()
    assert page.installed.words.text()
    page.search.field.clear()
    page.installed.view.choose(model.path)
    page.installed.view.setFocus()
    QTest.keyClick(page.installed.view, Qt.Key.Key_Return)
    keeper.until(lambda: loads(keeper)[-1].model == model.path)


def test_a_folder_with_weights_is_a_model_and_two_files_are_none(tmp_path: Path) -> None:
    def dragged(*paths: Path) -> QMimeData:
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
        return data

    one, two = tmp_path / "one.gguf", tmp_path / "two.gguf"
    assert dropped_model(dragged(tmp_path)) is None  # its files are attached
    one.touch()
    assert dropped_model(dragged(tmp_path)) == tmp_path
    assert dropped_model(dragged(one)) == one
    assert dropped_model(dragged(one, two)) is None


def test_a_speed_without_a_range_is_told_once() -> None:
    assert speed_words(Fit(Badge.CPU, slowest=20.2, fastest=20.4)) == "about 20 tokens/s"
