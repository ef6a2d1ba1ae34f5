"""Played servers and switchboards that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from elsewhere import Elsewhere
from played_server import PlayedServer, Script


@pytest.fixture
def play() -> Iterator[Callable[..., PlayedServer]]:
    """Make servers that play a script."""
    with ExitStack() as stack:

        def make(script: Script, **options: Any) -> PlayedServer:
            server = PlayedServer(script, **options)
            stack.callback(server.close)
            return server

        yield make


@pytest.fixture
def elsewhere() -> Iterator[Callable[..., Elsewhere]]:
    """Make windows' views of servers."""
    with ExitStack() as stack:

        def make(**options: Any) -> Elsewhere:
            view = Elsewhere(**options)
            stack.callback(view.close)
            return view

        yield make
