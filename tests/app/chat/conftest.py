from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot
from transcript_reader import Reader

from app.theme.theme import Theme, ThemeChoice


@pytest.fixture
def reader(theme: Theme, qtbot: QtBot) -> Iterator[Reader]:
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
    yield Reader(qtbot)
    theme.apply(ThemeChoice.LIGHT, font_scale=1.0)
