"""A window that serves on a port of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import keyring
import pytest
from keyring.backends.fail import Keyring as NoKeyring

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))

from desk import Desk
from fake_engine import Script
from memory_keyring import Ring
from serving_desk import serve

from app.serving.model_server import ModelServer


@pytest.fixture
def ring() -> Iterator[Ring]:
    ring = Ring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(NoKeyring())


@pytest.fixture
def server(desk: Desk) -> ModelServer:
    return serve(desk)


@pytest.fixture
def holding(open_desk: Callable[[Script | None], Desk]) -> Desk:
    """A window whose engine stops in the middle of each answer until it is stopped."""
    desk = open_desk(Script(answer="one two three four five six seven eight", hold_after=1))
    desk.ready()
    return desk
