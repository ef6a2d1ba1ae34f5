"""A device that a load has opened: its ledger, and backends that compile segments for it."""

from __future__ import annotations

from typing import Protocol

from engine.backend.ledger import Ledger
from engine.backend.segment import Backend
from engine.backend.shared import Loan
from engine.backend.transfers import Transfers
from engine.commands import WeightFormat


class Device(Protocol):
    """The CPU, an accelerator on torch, or the simulated one."""

    @property
    def name(self) -> str:
        """As plans name it: "cpu", "cuda:0", "simulated:0"."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What is held on it; segments and caches of its backends are entered here."""
        ...

    @property
    def transfers(self) -> Transfers:
        """Its copies, those that somebody waited for."""
        ...

    def backend(self, weights: WeightFormat, owner: str, loan: Loan | None = None) -> Backend:
        """Compiles segments whose allocations are entered for `owner` ("target", "draft").

        `loan`: what a feature head has of its target.
        """
        ...

    def close(self) -> None:
        """Give everything back; segments and caches have to be forgotten before."""
        ...
