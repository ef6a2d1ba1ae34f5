from __future__ import annotations

import faulthandler
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtGui import QDesktopServices, QGuiApplication
from PySide6.QtWidgets import QDialogButtonBox
from pytestqt.qtbot import QtBot

from app.data_folder.paths import Paths
from app.diagnostics.logs import start_logging
from app.diagnostics.report_text import safe_traceback
from app.diagnostics.reports import MOST, ReportFolder, ReportKind
from app.settings_page.reports_dialog import ReportsDialog

ROOT = Path(__file__).parents[3]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    paths = Paths(tmp_path / "data", tmp_path / "config")
    paths.data.mkdir()
    return paths


def failing(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001
        return raised


def test_a_report_tells_the_place_and_no_word_of_a_conversation(paths: Paths) -> None:
    paths.log.write_text("first\n" * 100 + "the last line\n")
    try:
        try:
            raise KeyError("my secret question")
        except KeyError as inner:
            raise ValueError("about my secret question") from inner
    except ValueError as error:
        report = ReportFolder(paths).of_error(error)
    assert report is not None
    text = report.text()
    assert "secret question" not in text.replace('"my secret question"', "").replace(
        '"about my secret question"', ""
    )  # the source lines above are code
    for needed in ("KeyError", "ValueError", "test_reports.py", "Python 3", "Qt 6", "PySide6"):
        assert needed in text
    assert text.rstrip().endswith("the last line")
    assert text.count("first\n") == 59


def test_messages_that_tell_of_code_are_kept() -> None:
    home = str(Path.home() / "file")
    trace = safe_traceback(failing(FileNotFoundError(2, "No such file or directory", home)))
    assert "No such file or directory: '~" in trace
    assert str(Path.home()) not in trace
    assert "left out" in safe_traceback(failing(UnicodeEncodeError("utf-8", "words", 0, 1, "no")))


def test_the_log_does_not_quote_either(paths: Paths) -> None:
    root = logging.getLogger()
    before, level = list(root.handlers), root.level
    hooks = sys.excepthook
    crash_file = start_logging(paths, lambda _error: None)
    try:
        try:
            raise ValueError("a whole " + "question")
        except ValueError:
            logging.getLogger("duotail").exception("unexpected error")
        text = paths.log.read_text()
    finally:
        faulthandler.enable()
        sys.excepthook = hooks
        root.setLevel(level)
        for handler in [h for h in root.handlers if h not in before]:
            root.removeHandler(handler)
            handler.close()
        if crash_file is not None:
            crash_file.close()
    assert "unexpected error" in text
    assert "ValueError" in text
    assert "a whole question" not in text


def test_an_error_is_known_by_its_place(paths: Paths) -> None:
    folder = ReportFolder(paths)
    error = failing(IndexError("x"))
    assert not folder.knows(error)
    assert folder.of_error(error) is not None
    assert folder.knows(error)
    assert folder.knows(failing(IndexError("x")))
    assert not folder.knows(failing(KeyError("x")))


def test_the_oldest_reports_go_first(paths: Paths) -> None:
    folder = ReportFolder(paths)
    paths.reports.mkdir()
    for day in range(1, MOST + 4):
        (paths.reports / f"2001-01-{day:02} 10-00-00 error.txt").write_text("old")
    (paths.reports / "notes.txt").write_text("not ours")
    folder.of_error(failing(IndexError("x")))
    kept = folder.all()
    assert len(kept) == MOST
    assert kept[0].text() != "old"
    assert kept[-1].path.name.startswith("2001-01-05")
    assert (paths.reports / "notes.txt").exists()


@pytest.fixture
def crashed(paths: Paths) -> Iterator[Paths]:
    code = (
        "import faulthandler, os, sys; f = open(sys.argv[1], 'a');"
        "faulthandler.enable(f); os.abort()"
    )
    subprocess.run([sys.executable, "-c", code, str(paths.crash_log)], check=False, cwd=ROOT)
    return paths


@pytest.mark.skipif(sys.platform == "win32", reason="aborting opens a window there")
def test_a_native_crash_becomes_a_report_once(crashed: Paths) -> None:
    folder = ReportFolder(crashed)
    report = folder.of_last_crash()
    assert report is not None
    assert report.kind is ReportKind.CRASH
    assert "Fatal Python error: Aborted" in report.text()
    assert folder.of_last_crash() is None
    assert os.path.getsize(crashed.crash_log) == 0
    assert [each.path for each in folder.all()] == [report.path]


def test_no_crash_no_report(paths: Paths) -> None:
    assert ReportFolder(paths).of_last_crash() is None


@pytest.mark.qt_log_ignore("This plugin does not support")
def test_reports_are_read_copied_and_deleted(
    paths: Paths, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ReportFolder(paths)
    shown: list[str] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: shown.append(url.toLocalFile()))
    folder.of_error(failing(IndexError("one")))
    folder.of_error(failing(IndexError("two")))
    dialog = ReportsDialog(folder)
    qtbot.addWidget(dialog)
    dialog.show()
    assert dialog.list.geometry().right() < dialog.text.geometry().left()
    assert dialog.list.count() == 2
    assert "IndexError" in dialog.text.toPlainText()
    dialog.copy.click()
    assert QGuiApplication.clipboard().text() == dialog.text.toPlainText()
    dialog.open_folder.click()
    assert [Path(each) for each in shown] == [paths.reports]
    with qtbot.waitSignal(dialog.changed):
        dialog.delete.click()
    assert len(folder.all()) == 1
    dialog.delete_all.click()
    assert folder.all() == []
    assert "no crash reports" in dialog.text.toPlainText()
    assert not dialog.copy.isEnabled()
    with qtbot.waitSignal(dialog.restart_asked) as asked:
        dialog.safe.click()
    assert asked.args == [True]
    dialog.show()
    (box,) = dialog.findChildren(QDialogButtonBox)
    box.button(QDialogButtonBox.StandardButton.Close).click()
    assert not dialog.isVisible()
