"""A loaded engine for all tests of a server that need a real one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from engine_session import PATIENCE
from household import Household


@pytest.fixture(scope="session")
def _loaded_household() -> Iterator[Household]:
    household = Household()
    household.load()
    yield household
    household.engine.close(PATIENCE)


@pytest.fixture
def household(_loaded_household: Household) -> Household:
    """An engine with the small model, for a window and a server."""
    _loaded_household.forget()
    return _loaded_household
