"""Conversations with tools, on a scripted engine."""

from __future__ import annotations

import pytest
from desk import Desk
from tool_desk import ToolDesk


@pytest.fixture
def tools(desk: Desk) -> ToolDesk:
    result = ToolDesk(desk)
    result.use("calculator")
    return result
