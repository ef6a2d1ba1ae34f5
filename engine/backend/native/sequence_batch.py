"""Sequences of a whole model side by side: their rows go through the weights together."""

from __future__ import annotations

import ctypes as c
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.backend.ledger import unlimited
from engine.backend.native.library import StepStruct, pointer, refusal
from engine.backend.native.memory import reserve_rows
from engine.backend.native.segment import NativeSegment
from engine.backend.native.workspace import ROWS, TapRows
from engine.backend.segment import SegmentOutput
from engine.backend.step import CHUNK


class SequenceBatch:
    """Lanes for sequences of a whole model on the CPU.

    The weights are read once for all rows of a forward, so 32 sequences cost about as much as 5 of
    them alone. Each row's numbers are those it would have alone.

    Args:
        segment: the whole model, with embedding and head.
        lanes: sequences at a time.
        length: most tokens of a sequence.
    """

    def __init__(self, segment: NativeSegment, lanes: int, length: int) -> None:
        account = unlimited()
        config = segment.config
        self._segment, self._length = segment, length + -length % CHUNK
        self._cache = segment.new_cache(lanes * self._length)
        self._lengths = np.zeros(lanes, dtype=np.int32)
        self._slots: NDArray[np.int32] = np.arange(lanes * self._length, dtype=np.int32)
        self._taps = TapRows(segment.blocks, config.hidden_size, account)
        self._hidden_used, self._hidden = reserve_rows(account, ROWS, config.hidden_size)
        self._logits_used, self._logits = reserve_rows(account, ROWS, config.head_rows)

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each lane, int32 [lanes]."""
        return self._lengths

    def clear(self, lane: int) -> None:
        """Empty a lane for another sequence."""
        self._lengths[lane] = 0

    def forward(
        self,
        lanes: Sequence[int],
        tokens: Sequence[int],
        logit_rows: Sequence[int],
        taps: tuple[int, ...] = (),
    ) -> SegmentOutput:
        """Append each token to its lane and compute all of them.

        Args:
            lanes: the lane of each row; several rows of one lane follow each other.
            tokens: as many token ids, `ROWS` at most.
            logit_rows: rows whose logits are wanted, ascending.
            taps: blocks whose outputs are wanted.

        Returns:
            Arrays that are valid until the next forward.

        Raises:
            ValueError: too many rows, or a lane is full.
        """
        rows = len(tokens)
        lane_of = np.array(lanes, dtype=np.int32)
        positions = np.empty(rows, dtype=np.int32)
        lengths = self._lengths.copy()
        for row, lane in enumerate(lane_of.tolist()):
            positions[row] = lengths[lane]
            lengths[lane] += 1
        if not 0 < rows <= ROWS or lengths.max() > self._length:
            raise ValueError("more rows or tokens than there is room for")
        slots = lane_of * np.int32(self._length) + positions
        ids, wanted = np.array(tokens, dtype=np.int32), np.array(logit_rows, dtype=np.int32)
        step = StepStruct(
            rows=rows,
            paths=len(lengths),
            path_width=self._length,
            logit_count=len(wanted),
            tokens=pointer(ids),
            positions=pointer(positions),
            slots=pointer(slots),
            path_slots=pointer(self._slots),
            row_path=pointer(lane_of),
            logit_rows=pointer(wanted),
            hidden_out=pointer(self._hidden),
            logits=pointer(self._logits),
        )
        self._hidden_used.extend(rows)
        self._logits_used.extend(len(wanted))
        tapped = self._taps.prepare(step, taps, rows, ROWS)
        if result := self._segment.forward_rows(self._cache, c.byref(step), rows):
            raise refusal(result)
        self._lengths = lengths
        return SegmentOutput(self._hidden[:rows], self._logits[: len(wanted)], tapped)
