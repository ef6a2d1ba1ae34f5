"""Inputs and outputs of native forwards, at addresses that stay from one to the next."""

from __future__ import annotations

import ctypes as c

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import Account
from engine.backend.native.cancel import CancelFlag
from engine.backend.native.library import StepStruct, pointer
from engine.backend.native.memory import reserve_rows
from engine.backend.native.workspace import TapRows
from engine.backend.segment import SegmentOutput, features_are_own
from engine.backend.step import Step
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats


class StepArrays:
    """Arguments and results of a segment's forwards; memory is touched as far as it is used.

    Args:
        config: of the model.
        blocks: the segment's blocks.
        rows: most rows of a forward.
        logit_rows: most rows whose logits are wanted.
        vocab: width of the logits; None for a segment without a head.
        account: where they are entered.
    """

    def __init__(
        self,
        config: ModelConfig,
        blocks: range,
        rows: int,
        logit_rows: int,
        vocab: int | None,
        account: Account,
    ) -> None:
        width = config.hidden_size
        self._config, self._rows = config, rows
        self._taps = TapRows(blocks, width, account)
        ints: NDArray[np.int32] = np.zeros((3, rows), dtype=np.int32)
        self._tokens, self._some_rows, self._all_rows = ints
        self._all_rows[:] = range(rows)
        self._which_rows = pointer(self._some_rows), pointer(self._all_rows)
        self._hidden_rows, self._hidden = reserve_rows(account, rows, width)
        self._logits: Floats | None = None
        if vocab is not None:
            self._logits_rows, self._logits = reserve_rows(account, logit_rows, vocab)
        self._struct = StepStruct(
            tokens=pointer(self._tokens),
            hidden_out=pointer(self._hidden),
            logits=pointer(self._logits),
        )
        self._argument = c.byref(self._struct)
        self._reserve_parents(rows)

    def _reserve_parents(self, nodes: int) -> None:
        self._parents = np.zeros(nodes, dtype=np.int32)
        self._parents_at = pointer(self._parents)

    def prepare(
        self, step: Step, hidden: Floats | None, cancel: CancelFlag | None = None
    ) -> SegmentOutput:
        """Put the arguments in place; what is returned is filled by the native call.

        `hidden` and `cancel`, which gives the forward up, have to stay alive until then.

        Raises:
            ValueError: a feature head was not given the features of its rows.
        """
        rows, nodes, native = len(step.tokens), len(step.parents), self._struct
        if nodes > len(self._parents):
            self._reserve_parents(nodes)
        self._hidden_rows.extend(rows)
        if self._config.fusion is not None:
            native.own = features_are_own(self._config, hidden, rows)
        if hidden is None or self._config.fusion is not None:
            self._tokens[:rows] = step.tokens
        self._parents[:nodes] = step.parents
        native.rows, native.hidden_in = rows, pointer(hidden)
        native.cancel = None if cancel is None else cancel.address
        logits = None if self._logits is None else self._logits[: self._prepare_logits(step)]
        taps = self._taps.prepare(native, step.taps, rows, self._rows)
        self.arguments = self._argument, step.committed, nodes - rows, self._parents_at
        """What dt_forward_tree takes after the cache."""
        return SegmentOutput(self._hidden[:rows], logits, taps)

    def _prepare_logits(self, step: Step) -> int:
        some, every = self._which_rows
        if step.logit_rows is None:
            count, self._struct.logit_rows = len(step.tokens), every
        else:
            count, self._struct.logit_rows = len(step.logit_rows), some
            self._some_rows[:count] = step.logit_rows
        self._struct.logit_count = count
        self._logits_rows.extend(count)
        return count
