from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QLocale, Qt
from PySide6.QtWidgets import QApplication, QDialogButtonBox
from pytestqt.qtbot import QtBot

from app.settings.language import chosen, speak
from engine import language


@pytest.fixture(autouse=True)
def _english_again(qapp: QApplication) -> Iterator[None]:
    yield
    speak(qapp, "en")
    QLocale.setDefault(QLocale.system())


def cancel(qtbot: QtBot) -> str:
    box = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
    qtbot.addWidget(box)
    return box.button(QDialogButtonBox.StandardButton.Cancel).text().replace("&", "")


def test_qt_speaks_the_language_that_was_chosen(qtbot: QtBot, qapp: QApplication) -> None:
    speak(qapp, "de")
    assert cancel(qtbot) == "Abbrechen"
    assert QLocale().language() is QLocale.Language.German
    speak(qapp, "en")
    assert cancel(qtbot) == "Cancel"
    assert QApplication.layoutDirection() is Qt.LayoutDirection.LeftToRight


def test_the_systems_language_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    class Here:
        def __init__(self, names: list[str]) -> None:
            self._names = names

        def uiLanguages(self) -> list[str]:  # noqa: N802
            return self._names

    for names, code in ((["zh-Hans-CN", "zh"], "zh_CN"), (["de-AT"], "de"), (["tlh"], "en")):
        with monkeypatch.context() as patch:
            patch.setattr(QLocale, "system", staticmethod(lambda names=names: Here(names)))
            assert chosen("system") == code
    assert chosen("de") == "de"


def test_the_pseudo_language_can_be_spoken(qtbot: QtBot, qapp: QApplication) -> None:
    speak(qapp, language.PSEUDO)
    assert language.tr("Stop").startswith("[")
    assert cancel(qtbot) == "Cancel"
