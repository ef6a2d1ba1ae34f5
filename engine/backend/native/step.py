"""What a native forward reads and writes, at addresses that stay from one forward to the next."""

from __future__ import annotations

import ctypes as c

import numpy as np
from numpy.typing import NDArray

from engine.backend.native.library import StepStruct, pointer
from engine.backend.segment import Floats, SegmentOutput, Step


class StepArrays:
    """Arguments and results of a segment's forwards; memory is touched as far as it is used.

    Args:
        blocks: the segment's blocks.
        rows: most rows of a forward.
        width: hidden size.
        logit_rows: most rows whose logits are wanted.
        vocab: vocabulary size; None for a segment without a head.
    """

    def __init__(
        self, blocks: range, rows: int, width: int, logit_rows: int, vocab: int | None
    ) -> None:
        self._blocks, self._width = blocks, width
        ints: NDArray[np.int32] = np.zeros((4, rows), dtype=np.int32)
        self._tokens, self._positions, self._row_path, self._logit_rows = ints
        self._hidden = np.empty((rows, width), dtype=np.float32)
        self._logits = None if vocab is None else np.empty((logit_rows, vocab), dtype=np.float32)
        self._local_taps = ints[0, :0]
        self._struct = StepStruct(
            tokens=pointer(self._tokens),
            positions=pointer(self._positions),
            row_path=pointer(self._row_path),
            logit_rows=pointer(self._logit_rows),
            hidden_out=pointer(self._hidden),
            logits=pointer(self._logits),
        )
        self.argument = c.byref(self._struct)
        """For dt_forward."""

    def prepare(self, step: Step, hidden: Floats | None) -> SegmentOutput:
        """Put the arguments in place; what is returned is filled by the native call.

        `step` and `hidden` have to stay alive until then.
        """
        rows, wanted, native = len(step.tokens), len(step.logit_rows), self._struct
        native.rows, native.first_slot, native.hidden_in = rows, step.first_slot, pointer(hidden)
        self._tokens[:rows] = step.tokens
        self._positions[:rows] = step.positions
        if (tree := step.tree) is None:
            native.paths = 0
        else:
            self._row_path[:rows] = tree.row_path
            native.paths, native.path_width = tree.slots.shape
            native.path_base, native.path_slots = tree.base, pointer(tree.slots)
        logits = None
        if self._logits is not None:
            self._logit_rows[:wanted] = step.logit_rows
            native.logit_count, logits = wanted, self._logits[:wanted]
        taps = self._prepare_taps(step.taps, rows) if step.taps else {}
        native.tap_count = len(taps)
        return SegmentOutput(self._hidden[:rows], logits, taps)

    def _prepare_taps(self, wanted: tuple[int, ...], rows: int) -> dict[int, Floats]:
        taps = [tap for tap in wanted if tap in self._blocks]
        self._local_taps = np.array([tap - self._blocks.start for tap in taps], dtype=np.int32)
        out = np.empty((len(taps), rows, self._width), dtype=np.float32)
        self._struct.taps, self._struct.tap_out = pointer(self._local_taps), pointer(out)
        return dict(zip(taps, out, strict=True))
