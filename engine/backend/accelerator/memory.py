"""A segment's memory on a device: entered in the ledger first, then taken from torch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.troubles import in_words
from engine.backend.ledger import Account, Allocation, Purpose


class DeviceAllocator:
    """Takes tensors from a device; their entries go with this object, which the holder keeps."""

    def __init__(self, driver: Driver, account: Account) -> None:
        self._driver, self._account = driver, account

    @property
    def device(self) -> torch.device:
        """The device that tensors are taken from."""
        return self._driver.device

    def in_words(self, needed: int | None = None) -> AbstractContextManager[None]:
        """Say what goes wrong on the device."""
        return in_words(self._driver, self._account.ledger, needed)

    def enter(self, purpose: Purpose, nbytes: int) -> Allocation:
        """Enter what torch will take on its own.

        Raises:
            OutOfMemory: beyond the budget; torch was not asked.
        """
        return self._account.take(purpose, nbytes).lasts_as_long_as(self)

    def zeros(self, purpose: Purpose, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A tensor of zeros.

        Raises:
            OutOfMemory: beyond the budget, or the device is full; nothing is entered.
        """
        nbytes = torch.Size(shape).numel() * dtype.itemsize
        entry = self.enter(purpose, nbytes)
        try:
            with self.in_words(nbytes):
                return torch.zeros(tuple(shape), dtype=dtype, device=self.device)
        except BaseException:
            entry.release()
            raise

    def keep(self, purpose: Purpose, tensor: torch.Tensor) -> torch.Tensor:
        """A copy on the device."""
        kept = self.zeros(purpose, tensor.shape, tensor.dtype)
        kept.copy_(tensor)
        return kept


class Workspace:
    """Entered in the ledger, where it stays as long as this object; torch's allocator hands it out.

    One of a device's is shared by all segments, which run one after the other.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._reserved = 0

    def reserve(self, nbytes: int) -> None:
        """Have room for so much at once.

        Raises:
            OutOfMemory: beyond the budget.
        """
        more = nbytes - self._reserved
        if more > 0:
            self._account.take(Purpose.WORKSPACE, more).lasts_as_long_as(self)
            self._reserved = nbytes
