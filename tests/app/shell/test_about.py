from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QDialogButtonBox, QLabel
from pytestqt.qtbot import QtBot

from app.shell.about import AboutDialog, NoticesDialog, ShortcutsDialog, notices
from app.theme.theme import Theme, ThemeChoice
from engine import language

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


@pytest.fixture(params=[1.0, 1.6])
def _sizes(request: pytest.FixtureRequest, theme: Theme) -> Iterator[None]:
    theme.apply(ThemeChoice.LIGHT, font_scale=request.param)
    language.use(language.PSEUDO)
    yield
    language.use(language.ENGLISH)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)


@pytest.mark.usefixtures("_sizes")
@pytest.mark.parametrize("kind", [AboutDialog, ShortcutsDialog])
def test_no_text_is_cut_off(kind: type, qtbot: QtBot) -> None:
    keys = [("Do something that takes many words to be said", "Ctrl+Shift+Return")] * 20
    dialog = kind(keys) if kind is ShortcutsDialog else kind()
    qtbot.addWidget(dialog)
    dialog.show()
    qtbot.waitExposed(dialog)
    for label in dialog.findChildren(QLabel):
        if label.text():
            assert label.height() >= label.heightForWidth(label.width())
            assert label.geometry().right() < dialog.width()
    room = dialog.screen().availableGeometry()
    assert dialog.height() <= room.height()
    assert dialog.width() <= room.width()


def test_about_names_papers_and_licences(qtbot: QtBot) -> None:
    dialog = AboutDialog()
    qtbot.addWidget(dialog)
    text = " ".join(label.text() for label in dialog.findChildren(QLabel))
    for needed in ("arxiv.org/abs/2412.18934", "arxiv.org/abs/2503.00784", "Apache", "LGPL"):
        assert needed in text
    assert "PyTorch (BSD-3-Clause)" in notices()
    shown = NoticesDialog()
    qtbot.addWidget(shown)
    assert shown.text.toPlainText() == notices()
    assert shown.findChild(QDialogButtonBox) is not None
