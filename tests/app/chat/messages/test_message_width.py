"""Lines are as wide as the column, in every message."""

from __future__ import annotations

import pytest
from desk import Desk

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def test_later_answers_use_the_whole_column(desk: Desk) -> None:
    desk.assembly.window.resize(1280, 800)
    for question in ("One?", "Two?", "Three?"):
        desk.type_and_send(question)
        text = desk.answered().text
        assert text.viewport().width() > 300
        assert text.document().textWidth() == text.viewport().width()
