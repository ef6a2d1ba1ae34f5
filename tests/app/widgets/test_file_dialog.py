"""Where dialogs for files begin."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QDir
from PySide6.QtWidgets import QFileDialog, QWidget
from pytestqt.qtbot import QtBot

import app
from app.widgets.file_dialog import file_dialog


def test_no_dialog_begins_in_the_folder_of_the_program(qtbot: QtBot, tmp_path: Path) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    for wanted in (None, tmp_path / "gone"):
        assert file_dialog(window, "Open", wanted).directory() != QDir.current()
    assert file_dialog(window, "Open", tmp_path).directory().path() == str(tmp_path)
    root = Path(app.__file__).parent
    makers = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if f"{QFileDialog.__name__}(" in path.read_text(encoding="utf-8")
    }
    assert makers == {"widgets/file_dialog.py"}
