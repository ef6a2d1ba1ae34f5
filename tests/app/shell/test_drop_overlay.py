"""Files dragged over the window: what a drop would do is said, and done wherever it falls."""

from __future__ import annotations

from pathlib import Path

import pytest
from desk import Desk
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication

from app.shell.page_names import PageName

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")
KEYS = Qt.KeyboardModifier.NoModifier


def dragged(path: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    return data


@pytest.mark.release(keep=2, reason="every drop")
@pytest.mark.parametrize(
    ("name", "page", "words"),
    [
        ("mine.gguf", None, "Drop to load mine.gguf"),
        ("mine.gguf", PageName.TUNING, "Drop to load mine.gguf"),
        ("mine.gguf", PageName.MODELS, "Drop to add mine.gguf to your models"),
        ("notes.txt", None, "Drop to attach to your message"),
        ("notes.txt", PageName.TUNING, ""),
    ],
)
def test_a_sheet_says_what_a_drop_does(
    desk: Desk, tmp_path: Path, name: str, page: PageName | None, words: str
) -> None:
    window = desk.assembly.window
    if page is not None:
        window.pages.open(page)
    data, left = dragged(tmp_path / name), Qt.MouseButton.LeftButton
    over = QDragEnterEvent(QPoint(40, 40), Qt.DropAction.CopyAction, data, left, KEYS)
    QApplication.sendEvent(window.windowHandle(), over)
    sheet = window.drop_overlay
    assert (sheet.text, sheet.isVisible()) == (words, bool(words))
    QApplication.sendEvent(window.windowHandle(), QDragLeaveEvent())
    assert not sheet.isVisible()


def test_a_model_can_be_dropped_on_any_page(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    window, loaded = desk.assembly.window, list[Path]()
    monkeypatch.setattr(desk.assembly.models, "load_path", loaded.append)
    data, left = dragged(tmp_path / "mine.gguf"), Qt.MouseButton.LeftButton
    window.dropEvent(QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, left, KEYS))
    assert loaded == [tmp_path / "mine.gguf"]
