"""The whole window in a language that does not exist: nothing stays English, nothing is cut off."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from desk import Desk
from fake_engine import Script
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget

from app.showcase.script import MODEL_NAME, PLAN
from engine import language

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

OpenDesk = Callable[[Script | None], Desk]

OURS = ("SmolLM2 135M draft", MODEL_NAME, "Duotail")
"""Names, longer ones before those that they begin with."""


@pytest.fixture
def desk(open_desk: OpenDesk) -> Iterator[Desk]:
    language.use(language.PSEUDO)
    result = open_desk(None)
    result.assembly.window.resize(1280, 800)
    result.ready()
    result.assembly.window.performance.show()
    yield result
    language.use(language.ENGLISH)


def shown(desk: Desk, kind: type[QWidget]) -> list[QWidget]:
    return [each for each in desk.assembly.window.findChildren(kind) if each.isVisible()]


def english(text: str) -> str:
    """What of a text no catalogue was asked for: all outside brackets with a letter in it."""
    while (less := re.sub(r"\[[^\[\]]*\]", "", text)) != text:
        text = less
    words = re.sub(r"<[^>]*>", "", text)
    for name in (*OURS, "CPU", "GPU", "GiB", "MiB", "lookup"):
        words = words.replace(name, "")
    return words.strip() if re.search(r"[A-Za-z]{3,}", words) else ""


def test_nothing_stays_english(desk: Desk) -> None:
    desk.type_and_send("Hello")
    desk.answered()
    said = {"Hello", *PLAN.reasons}
    found = []
    for widget in shown(desk, QWidget):
        texts = [widget.toolTip(), widget.accessibleName()]
        if isinstance(widget, QLabel | QAbstractButton):
            texts.append(widget.text())
        lines = [line for text in texts for line in text.split("\n")]
        found += [line for line in lines if english(line) and line not in said]
    assert found == []


def test_no_button_is_cut_off(desk: Desk) -> None:
    QApplication.processEvents()
    cut = [
        button.text()
        for button in shown(desk, QAbstractButton)
        if isinstance(button, QAbstractButton)
        and button.text()
        and button.fontMetrics().horizontalAdvance(button.text()) > button.contentsRect().width()
    ]
    assert cut == []
