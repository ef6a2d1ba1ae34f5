"""Planted bugs of memory and how it is counted; see `bugs`."""

from __future__ import annotations

from typing import Any

from planting import everywhere


def mapped_memory_counted_twice() -> None:
    """The system counts mapped weights as available: promised once more, they are not there."""
    from engine.backend.decoder import Decoder

    honest = Decoder.weight_bytes
    Decoder.weight_bytes = property(  # type: ignore[method-assign, assignment]
        lambda self: honest.fget(self) + self.mapped_bytes  # type: ignore[attr-defined]
    )


def failed_loads_keep_what_they_had() -> None:
    """The error that is told holds the frames, and the frames what was loaded so far."""
    from engine.service import model_slot

    def refused(error: BaseException, *arguments: Any, **more: Any) -> Any:
        kept.append(error)
        return honest(error, *arguments, **more)

    kept: list[BaseException] = []
    honest = model_slot.refused
    everywhere("engine.service.model_slot", "refused", refused)
    everywhere("engine.loading.load", "clear_frames", lambda _: None)


def ledger_omission() -> None:
    """Keys and values are taken without being entered: no budget stops them."""
    from engine.backend.ledger import Account, Ledger, Purpose

    honest = Account.take

    def take(self: Any, purpose: Any, *amounts: Any, **marks: Any) -> Any:
        if purpose is Purpose.KV:
            return Ledger("cpu", "").take(self.owner, purpose, *amounts, **marks)
        return honest(self, purpose, *amounts, **marks)

    Account.take = take  # type: ignore[method-assign]


def a_long_context_takes_all_the_room() -> None:
    """No more is reserved for caches than they may take, so one sequence has it all."""
    from engine.loading import load

    load.RESERVED_SHARE = load.KV_SHARE
