"""Forwards that are recorded once and replayed: CUDA graphs, on NVIDIA's cards and AMD's.

What is recorded reads and writes fixed memory only, so that a replay with other numbers there is
another forward of the same shapes. One launch takes the place of hundreds.
"""

from __future__ import annotations

import logging
from typing import Protocol
from weakref import WeakSet

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.memory import Key, Recordings, Work, Workspace
from engine.errors import OutOfMemory

_log = logging.getLogger(__name__)


class GraphRecorder(Protocol):
    """Records work for replay."""

    def record(self, work: Work) -> Work:
        """Record `work` without running it; return what repeats it in the same memory."""
        ...


class CudaRecorder:
    """Recorder by CUDA stream capture.

    All recordings take their memory from one pool: no two of them run at the same time, and none
    leaves anything in it that is looked at after the next one has begun. A pool ends with its last
    recording, so it is a living one's.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._living: WeakSet[torch.cuda.CUDAGraph] = WeakSet()
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def record(self, work: Work) -> Work:
        """See `GraphRecorder`."""
        graph = torch.cuda.CUDAGraph()
        pools = (living.pool() for living in self._living)
        pool = next(pools, None) or torch.cuda.graph_pool_handle()
        with (
            torch.cuda.device(self._device),
            # A capture that fails leaves its stream behind as the current one.
            torch.cuda.stream(torch.cuda.current_stream(self._device)),
            # Other threads may use the device meanwhile, to watch or to calibrate.
            torch.cuda.graph(
                graph, pool=pool, stream=self._stream, capture_error_mode="thread_local"
            ),
        ):
            work()
        self._living.add(graph)
        return graph.replay


def recorder_for(driver: Driver) -> GraphRecorder | None:
    """Return the device's recorder; None where forwards cannot be recorded."""
    return CudaRecorder(driver.device) if driver.device.type == "cuda" else None


_ATTEMPTS = 3
"""Recordings that fail one after the other before no more are tried."""


class Graphs:
    """Records and replays a device's forwards.

    A forward is done the usual way the first time: what is compiled or chosen at first use is then
    there, and shapes that come once are not worth more. The second time it is recorded.

    Args:
        driver: the device's driver.
        room: workspace in which the memory that recordings keep is entered.
        recorder: None: nothing is recorded.
    """

    def __init__(self, driver: Driver, room: Workspace, recorder: GraphRecorder | None) -> None:
        self._driver, self._room, self._recorder = driver, room, recorder
        self._taken, self._failed = 0, 0

    def run(self, recordings: Recordings, key: Key, work: Work) -> None:
        """Run `work`, or replay its recording.

        Args:
            recordings: those of the cache that `work` works on.
            key: everything that `work` depends on except numbers in fixed memory.
            work: must not wait for results of the device.
        """
        if (replay := recordings.find(key)) is not None:
            replay()
        elif self._recorder is None:
            work()
        elif not recordings.knows(key):
            work()
            recordings.keep(key, None)
        elif (replay := self._recorded(self._recorder, work)) is not None:
            recordings.keep(key, replay)
            replay()
        else:
            work()

    def reserve(self, nbytes: int) -> None:
        """Reserve memory for what recordings will keep; do nothing where none are made."""
        if self._recorder is not None:
            self._room.reserve(nbytes)

    def _recorded(self, recorder: GraphRecorder, work: Work) -> Work | None:
        """Record `work`; None where that fails."""
        self._driver.give_back()
        before = self._held()
        try:
            replay = recorder.record(work)
            taken = self._taken + max(self._held() - before, 0)
            self._room.reserve(taken)
        except (RuntimeError, OutOfMemory) as error:  # torch's errors are RuntimeErrors
            self._failed += 1
            _log.warning("a forward could not be recorded: %s", error)
            if self._failed == _ATTEMPTS:
                _log.warning("forwards are not recorded from here on")
                self._recorder = None
            return None
        self._taken, self._failed = taken, 0
        return replay

    def _held(self) -> int:
        """Bytes in use: of the whole device, where it tells, as what replays has memory too."""
        known = self._driver.free_and_total()
        return self._driver.reserved() if known is None else known[1] - known[0]
