"""What the tests of the native backend share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine.backend.native.library import library
from engine.backend.native.pool import ThreadPool


@pytest.fixture
def isa_as_before() -> Iterator[None]:
    """A test may force instruction sets; the next one finds the one there was."""
    before = library().dt_current_isa()
    yield
    library().dt_use_isa(before)


@pytest.fixture(scope="module")
def pool() -> ThreadPool:
    return ThreadPool(2)
