"""Memory straight from the system, entered in a ledger: weights in large pages, workspace."""

from __future__ import annotations

import mmap
import sys
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import PAGE, Account, Purpose, Reach, unlimited

REGION = 128 << 20
"""Bytes taken from the system at once, lazily touched; a larger matrix has a region of its own."""

_BORDER = 64
_HUGE_PAGE = 2 << 20
_LARGE = 2 * _HUGE_PAGE
"""Working memory from this size on lies in large pages: products write many rows of it at once."""


class Arena:
    """Memory for weights: matrices side by side in large pages, which stream a quarter faster.

    Hands out stretches of regions; a region goes back when its last stretch is dropped.

    Hence whoever wants memory back on its own has an arena of its own.

    Args:
        account: where it is entered, as weights.
    """

    def __init__(self, account: Account | None = None) -> None:
        self._account = account or unlimited()
        self._region: weakref.ref[mmap.mmap] | None = None
        self._used = 0
        self._lock = Lock()

    def take(self, count: int) -> NDArray[np.uint8]:
        """`count` zeroed bytes, at a 64-byte border.

        Raises:
            MemoryError: the system has none left.
            OutOfMemory: they are more than the budget.
        """
        padded = count + -count % _BORDER
        entry = self._account.take(Purpose.WEIGHTS, padded)
        with self._lock:
            region = self._region() if self._region is not None else None
            if region is None or self._used + count > len(region):
                try:
                    region = _new_region(count)
                except MemoryError:
                    entry.release()
                    raise
                self._region, self._used = weakref.ref(region), 0
            entry.lasts_as_long_as(region)
            start = self._used
            self._used += padded
            return np.frombuffer(region, dtype=np.uint8, count=count, offset=start)


def reserve(
    account: Account,
    shape: Sequence[int],
    dtype: type[np.generic] = np.uint8,
    touched: Callable[[], int] | None = None,
    *,
    purpose: Purpose = Purpose.WORKSPACE,
) -> NDArray[Any]:
    """Zeroed memory at a page border, touched as far as it is used.

    Raises:
        MemoryError: the system has none left.
        OutOfMemory: it is more than the budget.
    """
    count = prod(shape)
    nbytes = count * np.dtype(dtype).itemsize
    size = max(nbytes + -nbytes % PAGE, PAGE)
    large = size >= _LARGE

    def exists() -> int:
        """Bytes that exist by now, in whole pages."""
        if touched is None:
            return size
        nbytes = touched()
        return min(nbytes + -nbytes % (_HUGE_PAGE if large else PAGE), size)

    entry = account.take(purpose, size, exists)
    try:
        region = _from_system(size)
    except MemoryError:
        entry.release()
        raise
    if large:
        _in_large_pages(region)
    entry.lasts_as_long_as(region)
    return np.frombuffer(region, dtype=dtype, count=count).reshape(shape)


def reserve_rows(account: Account, rows: int, width: int) -> tuple[Reach, NDArray[np.float32]]:
    """Working memory [rows, width] in fp32, and what is to be told how many rows are in use."""
    reach = Reach(lambda used: used * width * 4)
    return reach, reserve(account, (rows, width), np.float32, reach)


def _from_system(size: int) -> mmap.mmap:
    try:
        if sys.platform == "win32":
            return mmap.mmap(-1, size)
        # Shared memory, mmap's default, gets no large pages.
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"no memory for {size} bytes") from error


def _new_region(count: int) -> mmap.mmap:
    region = _from_system(max(REGION, count + -count % _HUGE_PAGE))
    _in_large_pages(region)
    return region


def _in_large_pages(region: mmap.mmap) -> None:
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):  # a kernel without large pages
            region.madvise(mmap.MADV_HUGEPAGE)


UNPLANNED = Arena()
"""For matrices outside of models: tests, comparisons."""
