"""Planted bugs of draft heads in folders; see `bugs`."""

from __future__ import annotations

from typing import Any


def taps_one_block_late() -> None:
    """Layers are numbered by what enters them, and taken for what leaves them."""
    from engine.model.heads import reading

    honest = reading._layer_ids
    reading._layer_ids = lambda source, key, first: honest(source, key, 0 * first)


def offsets_taken_for_tokens() -> None:
    """A published head's d2t tells how far a token is from its row, not which it is."""
    import numpy as np

    from engine.model.weights import head_weights

    honest = head_weights._tokens

    def tokens(config: Any, source: Any, part: Any, where: str) -> Any:
        found = honest(config, source, part, where)
        return found - np.arange(len(found), dtype=np.float32)

    head_weights._tokens = tokens


def borrowed_matrices_kept_with_the_head() -> None:
    """On disk lies, as the head's, what one of its targets has lent it."""
    from engine.backend.native.cached_weights import CachedWeights

    honest = CachedWeights.__init__

    def made(self: Any, *arguments: Any, **named: Any) -> None:
        honest(self, *arguments, **{**named, "apart": ()})

    CachedWeights.__init__ = made  # type: ignore[method-assign]


def borrowed_matrices_packed_again() -> None:
    """What a head borrows lies on its target's device a second time."""
    from engine.backend.shared import Loan

    Loan.find = lambda _self, _held, _name, *_fmt: None  # type: ignore[method-assign]
