"""A device's errors, when memory runs out or it is lost, in words that a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.ledger import GIB, Ledger
from engine.errors import DeviceLost, OutOfMemory
from engine.language import sentences, tr

_LOST = (
    "device lost",
    "device_lost",
    "device unavailable",
    "busy or unavailable",
    "devices are unavailable",
    "deviceunavailable",
    "device not available",
    "no longer available",
    "has fallen off",
    "ecc error",
    "uncorrectable",
    "unspecified launch failure",
    "launch timed out",
    "illegal memory access",
    "hardware stack error",
    "illegal instruction",
    "misaligned address",
    "driver shutting down",
    "context is destroyed",
    "gpu hang",
    "hiperrorunknown",
    "cudaerrorunknown",
    "unknown error",
)
"""After these nothing works in this process's context any more, whatever caused them."""


@contextmanager
def in_words(driver: Driver, ledger: Ledger, needed: int | None = None) -> Iterator[None]:
    """Say what went wrong on a device.

    Raises:
        OutOfMemory: the device, or the part of it that torch may use, is full; `needed` bytes were
            asked for.
        DeviceLost: it has to be opened again, and what lay on it is gone.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise _full(driver, ledger, needed, str(error)) from error
    except RuntimeError as error:
        said = str(error).lower()
        if "out of memory" in said:
            raise _full(driver, ledger, needed, str(error)) from error
        if any(sign in said for sign in _LOST):
            raise DeviceLost(
                tr("{device} does not answer any more.").format(device=ledger.name),
                tr("Load the model again: it then runs on what is left."),
                str(error),
            ) from error
        raise


def _full(driver: Driver, ledger: Ledger, needed: int | None, details: str) -> OutOfMemory:
    causes = [tr("{device} has no memory left.").format(device=ledger.name)]
    if needed is not None:
        causes.append(tr("{needed:.2f} GiB were needed.").format(needed=needed / GIB))
    known, lacking = driver.free_and_total(), None
    if known is not None:
        free, total = known
        lacking = ledger.shortage(free + ledger.held - (needed or 0))
        ours = ledger.held - (needed or 0)  # which is entered already
        others = max(total - free - ours, 0)
        causes.append(
            tr("{free:.2f} GiB are free, other programs hold {others:.2f} GiB.").format(
                free=free / GIB, others=others / GIB
            )
        )
    return OutOfMemory(
        sentences(*causes),
        tr("Close other programs that use it, lower the budget or choose a shorter context."),
        details,
        lacking,
    )
