"""Where models come from, as it is typed on the settings page, and what the hub is told of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot

from app.data_folder.paths import Paths
from app.settings import Settings, SettingsStore
from app.settings.file import load
from app.settings.hub_access import access_of, usable_path
from app.settings.model import SettingsSection
from app.settings_page.dialog import SettingsDialog
from app.settings_page.page import SettingsPage
from app.settings_page.text_editor import TextEditor
from app.theme.theme import Theme
from engine.hub.messages import Access

HUB = "https://hub.example"


@pytest.fixture
def dialog(theme: Theme, tmp_path: Path, qtbot: QtBot) -> SettingsDialog:
    paths = Paths(tmp_path / "data", tmp_path / "config", tmp_path / "pointer.toml")
    dialog = SettingsDialog(SettingsStore(paths.settings), theme, paths)
    qtbot.addWidget(dialog)
    dialog.page.show_section(SettingsSection.MODELS)
    dialog.show()
    qtbot.waitExposed(dialog)
    return dialog


@pytest.fixture
def page(dialog: SettingsDialog) -> SettingsPage:
    return dialog.page


def editor(page: SettingsPage, name: str) -> tuple[TextEditor, QLineEdit]:
    editor = page.rows[name].editor
    assert isinstance(editor, TextEditor)
    assert isinstance(editor.control, QLineEdit)
    return editor, editor.control


def store(page: SettingsPage) -> SettingsStore:
    return page.rows["hub_endpoint"]._store


def test_what_is_usual_is_told_as_nothing() -> None:
    assert access_of(Settings()) == Access()
    settings = Settings(hub_endpoint=f"{HUB}/", hub_proxy="http://proxy:1", hub_cache="~/models")
    assert access_of(settings, "hf_token") == Access(
        HUB, "hf_token", "http://proxy:1", str(Path.home() / "models")
    )


def test_an_address_is_typed_and_kept(page: SettingsPage, qtbot: QtBot) -> None:
    editor_, field = editor(page, "hub_endpoint")
    assert field.placeholderText() == "https://huggingface.co"
    qtbot.keyClicks(field, "http://hub.example")
    assert not editor_.wrong.isVisible(), "half an address is no mistake"
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert editor_.wrong.isVisible()
    assert store(page).value.hub_endpoint == ""
    field.setCursorPosition(4)
    qtbot.keyClicks(field, "s")
    assert not editor_.wrong.isVisible()
    qtbot.keyClick(field, Qt.Key.Key_Return)
    assert store(page).value.hub_endpoint == HUB
    store(page).flush()
    assert load(store(page).path).settings.hub_endpoint == HUB
    page.rows["hub_endpoint"].back.click()
    assert field.text() == store(page).value.hub_endpoint == ""


def test_a_change_from_elsewhere_shows(page: SettingsPage) -> None:
    _, field = editor(page, "hub_proxy")
    store(page).change(hub_proxy="http://proxy:8080")
    assert field.text() == "http://proxy:8080"


def test_a_chosen_folder_is_taken(page: SettingsPage, tmp_path: Path) -> None:
    editor_, field = editor(page, "hub_cache")
    editor_._take(str(tmp_path))
    assert store(page).value.hub_cache == field.text() == str(tmp_path)
    editor_._take("models")
    assert editor_.wrong.isVisible()
    assert store(page).value.hub_cache == str(tmp_path)


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('hub_endpoint = "http://not.encrypted"', "hub_endpoint"),
        ('hub_endpoint = "https://me:secret@hub.example"', "hub_endpoint"),
        ('hub_proxy = "http://me:secret@proxy"', "hub_proxy"),
        ('hub_cache = "relative/folder"', "hub_cache"),
        ("hub_cache = 7", "hub_cache"),
    ],
)
def test_what_cannot_be_used_in_the_file_is_as_usual(tmp_path: Path, line: str, name: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f"{line}\n", encoding="utf-8")
    assert getattr(load(file).settings, name) == ""


def test_folders_have_whole_paths() -> None:
    assert usable_path("")
    assert usable_path("~/models")
    assert not usable_path("models")
    assert not usable_path("~nobody-of-this-name/models")
    assert not usable_path("/a\nb")
