"""Travellers on data folders of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[3] / "packaging"))
sys.path.insert(0, str(Path(__file__).parents[2] / "engine" / "hub"))

from traveller import Traveller

from app.theme.theme import Theme


@pytest.fixture
def traveller(tmp_path: Path, theme: Theme, qtbot: QtBot) -> Iterator[Traveller]:
    """Somebody who has just opened the window; nothing is loaded yet."""
    result = Traveller(tmp_path, theme, qtbot)
    yield result
    result.leave()
