"""A device that a load has opened: its ledger, its copies, backends that compile for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from itertools import takewhile

from engine.backend.ledger import Ledger
from engine.backend.segment import Backend
from engine.backend.shared import NO_LOAN, Loan
from engine.commands import KvType, WeightFormat
from engine.events import Interval

_MOST = 1024
"""Copies kept where nobody asks for them, as while a prompt is read; a round has a few."""


class Transfers:
    """The copies of one device, in order of their ends. Any thread may note one."""

    def __init__(self) -> None:
        self._copies: deque[Interval] = deque(maxlen=_MOST)

    def note(self, start: float, end: float) -> None:
        """Note a copy that lasted from `start` to `end`."""
        self._copies.append(Interval(start, end))

    def take(self, until: float) -> list[Interval]:
        """Take the copies that have ended by then and were not taken before."""
        taken = list(takewhile(lambda copy: copy.end <= until, tuple(self._copies)))
        for _ in taken:
            self._copies.popleft()
        return taken


class Device(ABC):
    """The CPU, an accelerator through torch or WebGPU, or the simulated one.

    Args:
        ledger: of what is held on it, with the segments and caches of its backends.
        transfers: its copies that somebody waited for.
    """

    def __init__(self, ledger: Ledger, transfers: Transfers) -> None:
        self.ledger, self.transfers = ledger, transfers

    @property
    def name(self) -> str:
        """Name of the device in plans: "cpu", "cuda:0", "simulated:0"."""
        return self.ledger.device

    @abstractmethod
    def backend(
        self,
        weights: WeightFormat,
        owner: str,
        loan: Loan = NO_LOAN,
        kv: KvType = KvType.F16,
    ) -> Backend:
        """Compiles segments whose allocations are entered for `owner` ("target", "draft").

        `loan`: what a feature head has of its target. `kv`: type of keys and values; where there
        is only one, it is that one.
        """

    @abstractmethod
    def close(self) -> None:
        """Give all memory back; segments and caches must be dropped before."""
