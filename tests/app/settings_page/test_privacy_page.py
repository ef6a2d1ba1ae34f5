from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QFileDialog, QLabel, QMessageBox, QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.data_folder.paths import Paths
from app.data_folder.relocation import Pointer, read_pointer, write_pointer
from app.diagnostics.reports import ReportFolder
from app.settings_page.privacy import PlaceRow, PrivacyPage
from app.settings_page.reports_dialog import ReportsDialog
from app.settings_page.stored import StoredData, everything

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "data", tmp_path / "config", tmp_path / "config" / "data-folder.toml")
    paths.reports.mkdir(parents=True)
    paths.config.mkdir()
    return paths


def shown(paths: Paths, qtbot: QtBot) -> PrivacyPage:
    page = PrivacyPage(paths)
    for _row in page.fill():
        pass
    qtbot.addWidget(page)
    page.show()
    qtbot.waitExposed(page)
    return page


def press(where: QWidget, text: str) -> None:
    next(b for b in where.findChildren(QPushButton) if b.text() == text).click()


def asked(page: PrivacyPage) -> QMessageBox:
    return next(box for box in page.findChildren(QMessageBox) if box.isVisible())


def test_the_log_is_emptied_and_goes_on(paths: Paths, qtbot: QtBot) -> None:
    paths.log.write_text("old\n")
    (paths.data / "duotail.log.1").write_text("older\n")
    page = shown(paths, qtbot)
    row = page.places[StoredData.LOG]
    qtbot.waitUntil(lambda: row.size_label.text() == "10 bytes")
    with paths.log.open("a") as going_on:
        press(row, "Delete")
        qtbot.waitUntil(lambda: row.size_label.text() == "Empty")
        going_on.write("new\n")
    assert paths.log.read_text() == "new\n"
    assert not (paths.data / "duotail.log.1").exists()


def test_what_cannot_be_deleted_is_told(paths: Paths, qtbot: QtBot) -> None:
    page = shown(paths, qtbot)
    press(page.places[StoredData.LOG], "Delete")  # there is none
    qtbot.waitUntil(lambda: bool(page.findChildren(QMessageBox)))
    assert "Not everything could be deleted" in asked(page).text()


def test_reports_are_listed_and_benchmarks_deleted(paths: Paths, qtbot: QtBot) -> None:
    paths.benchmarks.mkdir()
    (paths.benchmarks / "one.json").write_text("{}")
    page = shown(paths, qtbot)
    report = ReportFolder(paths).of_error(ValueError("wrong"))
    press(page.places[StoredData.REPORTS], "Show…")
    dialog = page.findChild(ReportsDialog)
    assert dialog is not None
    assert dialog.list.count() == 1
    dialog.delete.click()
    assert report is not None
    assert not report.path.exists()
    with qtbot.waitSignal(page.restart_asked) as asked_for:
        dialog.safe.click()
    assert asked_for.args == [True]
    press(page.places[StoredData.BENCHMARKS], "Delete")
    qtbot.waitUntil(lambda: not list(paths.benchmarks.iterdir()))


def test_all_settings_are_reset_once_asked(paths: Paths, qtbot: QtBot) -> None:
    page = shown(paths, qtbot)
    press(page, "Reset all…")
    with qtbot.waitSignal(page.reset_settings_asked):
        press(asked(page), "Reset all")


def test_prepared_models_are_deleted(
    paths: Paths, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "cache" / "packed"
    folder.mkdir(parents=True)
    (folder / f"{'0' * 32}.packed").write_bytes(b"x" * 100)
    page = shown(paths, qtbot)
    row = page.places[StoredData.PREPARED]
    qtbot.waitUntil(lambda: row.size_label.text() == "100 bytes")
    press(row, "Delete")
    qtbot.waitUntil(lambda: row.size_label.text() == "Empty")


def test_every_place_is_told_in_words(paths: Paths, qtbot: QtBot) -> None:
    page = shown(paths, qtbot)
    for stored in everything(paths):
        row = page.places[stored.place]
        assert row.label.text()
        assert len(row.about.text()) > 30
        assert row.path_label.text().replace("\u200b", "") == str(stored.path)
        assert row.buttons.findChildren(QPushButton)


def test_the_data_are_moved_at_the_next_start(paths: Paths, qtbot: QtBot, tmp_path: Path) -> None:
    page = shown(paths, qtbot)
    page._move()
    (dialog,) = page.findChildren(QFileDialog)
    assert dialog.fileMode() is QFileDialog.FileMode.Directory
    dialog.fileSelected.emit(str(tmp_path / "new"))
    dialog.close()
    qtbot.waitUntil(lambda: bool(page.findChildren(QMessageBox)))
    assert paths.pointer is not None
    assert read_pointer(paths.pointer).wanted == str(tmp_path / "new")
    with qtbot.waitSignal(page.restart_asked) as restart:
        press(asked(page), "Restart now")
    assert restart.args == [False]


def test_a_folder_that_will_not_do_is_told(paths: Paths, qtbot: QtBot) -> None:
    page = shown(paths, qtbot)
    page.move_to(paths.data / "inside")
    qtbot.waitUntil(lambda: bool(page.findChildren(QMessageBox)))
    assert "already in this folder" in asked(page).text()


def test_the_former_folder_is_deleted_when_the_user_says_so(
    paths: Paths, qtbot: QtBot, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    old.mkdir()
    (old / "history.sqlite3").write_bytes(b"x")
    assert paths.pointer is not None
    write_pointer(paths.pointer, Pointer(folder=str(paths.data), old=str(old)))
    page = shown(paths, qtbot)
    row = page.old_folder
    assert isinstance(row, PlaceRow)
    press(row, "Delete…")
    assert old.exists()
    press(asked(page), "Delete")
    qtbot.waitUntil(lambda: page.old_folder is None)
    assert not old.exists()
    assert row not in page.rows


def test_a_folder_from_outside_is_not_moved(paths: Paths, qtbot: QtBot) -> None:
    page = shown(Paths(paths.data, paths.config), qtbot)
    move = next(b for b in page.data_folder.findChildren(QPushButton) if b.text() == "Move…")
    assert not move.isEnabled()
    assert "command line" in page.data_folder.about.text()


@pytest.mark.parametrize("place", [StoredData.SPEEDS, StoredData.ESTIMATES, StoredData.COMPILED])
def test_what_comes_anew_by_itself_is_deleted(
    paths: Paths, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: StoredData
) -> None:
    monkeypatch.setenv("DUOTAIL_CACHE_DIR", str(tmp_path / "cache"))
    page = shown(paths, qtbot)
    row = page.places[place]
    (stored,) = [each for each in everything(paths) if each.place is place]
    stored.path.mkdir(parents=True)
    (stored.path / "kept.json").write_bytes(b"x" * 100)
    page.refresh()
    qtbot.waitUntil(lambda: row.size_label.text() == "100 bytes")
    press(row, "Delete")
    qtbot.waitUntil(lambda: row.size_label.text() == "Empty")
    assert not list(stored.path.iterdir())


def test_models_and_what_is_known_of_them_are_told_with_their_size(
    paths: Paths, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (paths.models / "mine").mkdir(parents=True)
    (paths.models / "mine" / "mine.gguf").write_bytes(b"x" * 90)
    paths.downloads.write_bytes(b"x" * 10)
    blob = tmp_path / "hub" / "models--a--b" / "blobs" / "0"
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"x" * 50)
    (blob.parent.parent / "link").symlink_to(blob)
    page = shown(paths, qtbot)
    qtbot.waitUntil(lambda: page.places[StoredData.MODELS].size_label.text() == "100 bytes")
    qtbot.waitUntil(lambda: page.places[StoredData.CACHE].size_label.text() == "50 bytes")


def test_the_page_tells_what_a_search_sends(paths: Paths, qtbot: QtBot) -> None:
    page = shown(paths, qtbot)
    (said,) = [each.text() for each in page.findChildren(QLabel) if "model hub" in each.text()]
    for told in ("search words", "models you choose", "IP address", "token", "keyring"):
        assert told in said
