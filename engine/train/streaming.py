"""The target computes features in a thread of its own, a few batches ahead of the trainer."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np

from engine.backend.segment import Floats
from engine.model.decoder import Decoder
from engine.model.other_family import OtherConfig
from engine.train.batches import TokenBatch

AHEAD = 2
"""Batches that wait; so little memory hides the difference between a fast and a slow moment."""
_CHUNK = 512
_PATIENCE = 0.1
"""Seconds after which a thread that waits looks whether it is to stop."""


@dataclass(frozen=True, slots=True)
class FeatureBatch:
    """A batch with what the target has computed; rows of pads are zeros.

    Attributes:
        features: fp32 [batch, longest, taps * hidden]; without taps it is `hidden` itself.
        hidden: fp32 [batch, longest, hidden], what the target's output matrix takes.
    """

    batch: TokenBatch
    features: Floats
    hidden: Floats


class Features:
    """The target's features of batches.

    Args:
        target: any Decoder.
        taps: see `engine.model.config.Fusion`.
        longest: tokens of the longest sequence.
    """

    def __init__(self, target: Decoder, taps: tuple[int, ...], longest: int) -> None:
        if isinstance(target.config, OtherConfig):
            raise TypeError("transformers runs this target, which has no features")
        self._target, self._taps, self._width = target, taps, target.config.hidden_size
        self._state = target.new_state(longest)

    def of(self, batch: TokenBatch) -> FeatureBatch:
        """Each sequence goes through the target on its own."""
        width = self._width
        shape = batch.tokens.shape
        hidden = np.zeros((*shape, width), dtype=np.float32)
        features = hidden
        if self._taps:
            features = np.zeros((*shape, len(self._taps) * width), dtype=np.float32)
        for row, length in enumerate(batch.lengths.tolist()):
            self._state.crop(0)
            tokens = batch.tokens[row, :length].tolist()
            for start in range(0, length, _CHUNK):
                stop = min(start + _CHUNK, length)
                done = self._target.forward(
                    self._state, tokens[start:stop], logit_rows=(), taps=self._taps
                )
                hidden[row, start:stop] = done.hidden
                for place, tap in enumerate(self._taps):
                    columns = slice(place * width, (place + 1) * width)
                    features[row, start:stop, columns] = done.taps[tap]
                self._state.commit(range(stop - start))
        return FeatureBatch(batch, features, hidden)


class FeatureStream:
    """Features of batches, computed ahead. A context: leaving it ends the thread.

    Args:
        batches: without end; only the thread takes from it.
        features: used by nobody else meanwhile.
        ahead: batches that may wait.
    """

    def __init__(
        self, batches: Iterator[TokenBatch], features: Features, ahead: int = AHEAD
    ) -> None:
        self._batches, self._features = batches, features
        self._queue: queue.Queue[FeatureBatch | BaseException] = queue.Queue(ahead)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="features", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join()

    def next(self) -> FeatureBatch:
        """The next batch; raises what the thread has met."""
        found = self._queue.get()
        if isinstance(found, BaseException):
            raise found
        return found

    def _run(self) -> None:
        try:
            for batch in self._batches:
                if self._stop.is_set():
                    return
                self._put(self._features.of(batch))
        except BaseException as error:  # noqa: BLE001 - the trainer's thread raises it
            self._put(error)

    def _put(self, found: FeatureBatch | BaseException) -> None:
        while not self._stop.is_set():
            try:
                self._queue.put(found, timeout=_PATIENCE)
            except queue.Full:
                continue
            return
