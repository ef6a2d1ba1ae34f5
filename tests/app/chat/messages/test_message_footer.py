"""The line below a message: as many of its numbers as fit."""

from __future__ import annotations

from PySide6.QtWidgets import QToolButton
from pytestqt.qtbot import QtBot

from app.chat.messages.message_footer import Footer, FooterState

NUMBERS = ("41.8 tokens/s", "CPU", "400 tokens", "acceptance length 2.61")


def test_numbers_are_fitted_again_when_the_text_grows(qtbot: QtBot) -> None:
    footer = Footer()
    qtbot.addWidget(footer)
    footer.set_state(FooterState(numbers=NUMBERS))
    button = footer.findChild(QToolButton)
    assert isinstance(button, QToolButton)
    needed = button.fontMetrics().horizontalAdvance(" · ".join(NUMBERS))
    footer.resize(needed + 40, 32)
    footer.show()
    assert button.text() == " · ".join(NUMBERS)
    font = footer.font()
    font.setPointSizeF(1.5 * font.pointSizeF())
    footer.setFont(font)
    qtbot.waitUntil(lambda: button.text() != " · ".join(NUMBERS))
    assert button.text().startswith("41.8 tokens/s · CPU")
    assert button.fontMetrics().horizontalAdvance(button.text()) <= button.width()
