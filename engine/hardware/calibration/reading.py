"""Plain reading of memory, as fast as all threads together can."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.ledger import Account
from engine.hardware.calibration.small_model import OWNER

PIECE = 16 << 20


def host_reader(
    device: Device, nbytes: int, threads: int | None, check: Callable[[], None]
) -> Callable[[], None]:
    """Reads so many bytes of the host's memory; they lie as weights do, in large pages.

    `check` is called now and then while they are put there; it may raise `Cancelled`.

    Raises:
        OutOfMemory: the device's budget is too small.
    """
    if not native_is_built():
        words = np.empty(nbytes // 8, dtype=np.uint64)
        _fill(words.view(np.uint8), check)
        return lambda: _forget(words.max())
    from engine.backend.native.library import library, pointer
    from engine.backend.native.memory import Arena
    from engine.backend.native.pool import shared_pool

    data = Arena(Account(device.ledger, OWNER)).take(nbytes)
    _fill(data, check)
    pool = shared_pool(threads)
    return lambda: _forget(library().dt_checksum(pool.handle, pointer(data), len(data)))


def _fill(data: NDArray[np.uint8], check: Callable[[], None]) -> None:
    for start in range(0, len(data), PIECE):
        check()
        data[start : start + PIECE] = 1


def _forget(_: object) -> None:
    """What was read does not matter."""
