"""The native call that verifies a tree: its arguments and results, at addresses that stay."""

from __future__ import annotations

import ctypes as c
from typing import Any

import numpy as np

from engine.backend.ledger import Account
from engine.backend.native.library import StepStruct, library, pointer
from engine.backend.native.memory import reserve_rows
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.sizes import VERIFIED_ROWS
from engine.backend.native.workspace import TapRows
from engine.backend.round import Verified
from engine.backend.segment import SegmentOutput
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats


class VerifyCall:
    """dt_verify_tree for one segment.

    Args:
        pool: handle of the thread pool.
        segment: a reference to the segment's structure.
        config: of the model.
        blocks: the segment's.
        account: where its memory is entered.
    """

    def __init__(
        self,
        pool: int,
        segment: Any,  # noqa: ANN401 (ctypes has no name for it)
        config: ModelConfig,
        blocks: range,
        account: Account,
    ) -> None:
        self._before, self._account = (pool, segment), account
        self._width, self._vocab = config.hidden_size, config.vocab_size
        self._step = StepStruct()
        self._argument = c.byref(self._step)
        self._taps = TapRows(blocks, config.hidden_size, account)
        self._reserve(VERIFIED_ROWS)

    def __call__(
        self,
        cache: int,
        committed: int,
        draws: NativeDraws,
        hidden: Floats | None,
        taps: tuple[int, ...] | None,
    ) -> tuple[Verified, SegmentOutput | None]:
        """Verify the tree that `draws` was asked about.

        Args:
            cache: handle of the sequence's.
            committed: tokens of it whose keys the cache holds.
            draws: the target's, and the tree.
            hidden: what the segment before made of the tree; None where there is none.
            taps: blocks whose outputs are wanted beside the hidden states; None: nothing is.
        """
        asked, step = draws.asked, self._step
        count = asked.nodes
        if count > self._rows:
            self._reserve(2 * count)
        self._hidden_rows.extend(count)
        self._logits_rows.extend(count)
        step.rows = step.logit_count = count
        step.hidden_in = pointer(hidden)
        step.tokens, asked.logits = asked.tokens, self._logits_at
        tapped = self._taps.prepare(step, taps or (), count, self._rows)
        after = cache, self._argument, committed, draws.handle, draws.argument
        verified = draws.answer(library().dt_verify_tree(*self._before, *after))
        if taps is None:
            return verified, None
        return verified, SegmentOutput(self._hidden[:count], None, tapped)

    def _reserve(self, rows: int) -> None:
        """Room for trees of so many nodes; memory is touched as far as it is used."""
        hidden = reserve_rows(self._account, rows, self._width)
        logits = reserve_rows(self._account, rows, self._vocab)
        # From here on nothing is refused, which would leave the call with half of its room.
        self._rows, self._all_rows = rows, np.arange(rows, dtype=np.int32)
        (self._hidden_rows, self._hidden), (self._logits_rows, self._logits) = hidden, logits
        self._logits_at = pointer(self._logits)
        self._step.logit_rows, self._step.logits = pointer(self._all_rows), self._logits_at
        self._step.hidden_out = pointer(self._hidden)
