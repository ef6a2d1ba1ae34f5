"""The line below a message: as many of its numbers as fit."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.chat.messages.message_footer import Footer, FooterState
from app.theme.theme import Theme

NUMBERS = ("41.8 tokens/s", "CPU", "400 tokens", "acceptance length 2.61")


@pytest.mark.usefixtures("styled")
def test_numbers_are_fitted_again_when_the_text_grows(qtbot: QtBot, theme: Theme) -> None:
    footer = Footer()
    qtbot.addWidget(footer)
    footer.set_state(FooterState(numbers=NUMBERS))
    button = footer.findChild(QToolButton)
    assert isinstance(button, QToolButton)
    needed = button.fontMetrics().horizontalAdvance(" · ".join(NUMBERS))
    footer.resize(needed + 40, 32)
    footer.show()
    assert button.text() == " · ".join(NUMBERS)
    theme.apply(theme.choice, font_scale=1.5)
    qtbot.waitUntil(lambda: button.text() != " · ".join(NUMBERS))
    assert button.text().startswith("41.8 tokens/s · CPU")
    assert button.fontMetrics().horizontalAdvance(button.text()) <= button.width()
