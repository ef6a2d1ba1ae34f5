"""Regions of weights: borders, sharing, and giving back."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from engine.backend.native.memory import REGION, Arena


def test_stretches_lie_side_by_side_at_borders_and_are_writable() -> None:
    arena = Arena()
    first, second = arena.take(100), arena.take(64)
    first[:] = 1
    second[:] = 2
    assert second.ctypes.data - first.ctypes.data == 128
    assert first.ctypes.data % 64 == 0
    assert first.sum() == 100
    assert second.sum() == 128


def test_a_full_region_is_followed_by_another() -> None:
    arena = Arena()
    first, large, small = arena.take(REGION - 10), arena.take(3 * REGION + 1), arena.take(10)
    assert not np.shares_memory(first, large)
    assert len(large) == 3 * REGION + 1
    large[-1] = small[-1] = 7


def test_a_region_goes_back_with_its_last_stretch() -> None:
    arena = Arena()
    first, second = arena.take(1000), arena.take(1000)
    region = weakref.ref(first.base.obj)
    del first
    gc.collect()
    assert region() is second.base.obj
    del second
    gc.collect()
    assert region() is None
    assert arena.take(10).sum() == 0


def test_more_than_there_is_is_an_error() -> None:
    with pytest.raises(MemoryError):
        Arena().take(1 << 60)
