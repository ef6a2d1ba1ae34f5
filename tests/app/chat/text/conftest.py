from __future__ import annotations

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from shown_text import text_view

from app.chat.text.text_view import TextView
from app.theme.theme import Theme, ThemeChoice


@pytest.fixture
def host(theme: Theme, qtbot: QtBot) -> QWidget:
    theme.apply(ThemeChoice.LIGHT)
    result = QWidget()
    qtbot.addWidget(result)
    result.resize(700, 400)
    result.show()
    return result


@pytest.fixture
def view(host: QWidget) -> TextView:
    return text_view(host)
