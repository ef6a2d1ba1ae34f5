"""Forwards that are recorded once and replayed: CUDA graphs, on NVIDIA's cards and AMD's.

What is recorded reads and writes fixed memory only, so that a replay with other numbers there is
another forward of the same shapes. One launch takes the place of hundreds, which the host would
otherwise ask for one by one.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol

import torch

from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.memory import Workspace
from engine.errors import OutOfMemory

_log = logging.getLogger(__name__)

MOST = 48
"""Recordings kept of one sequence's cache; the one that was replayed longest ago goes."""

Work = Callable[[], None]
Key = Hashable


class GraphRecorder(Protocol):
    """What records."""

    def record(self, work: Work) -> Work:
        """What does the same as `work` again, in the same memory. `work` is not done meanwhile."""
        ...


class CudaRecorder:
    """By stream capture, the documented way.

    All recordings take their memory from one pool: no two of them run at the same time, and none
    leaves anything in it that is looked at after the next one has begun.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool = torch.cuda.graph_pool_handle()
        self._stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def record(self, work: Work) -> Work:
        """See `GraphRecorder`."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may use the device meanwhile, to watch or to calibrate.
        with (
            torch.cuda.device(self._device),
            torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"
            ),
        ):
            work()
        return graph.replay


def recorder_for(driver: Driver) -> GraphRecorder | None:
    """None where nothing can be recorded."""
    return CudaRecorder(driver.device) if driver.device.type == "cuda" else None


class Recordings:
    """Of the forwards that work on one cache: they hold its addresses, and go with it."""

    def __init__(self) -> None:
        self._known: OrderedDict[Key, Work | None] = OrderedDict()

    def __len__(self) -> int:
        return sum(replay is not None for replay in self._known.values())

    def knows(self, key: Key) -> bool:
        """Whether such a forward has been done before."""
        return key in self._known

    def find(self, key: Key) -> Work | None:
        """The recording, if there is one."""
        replay = self._known.get(key)
        if replay is not None:
            self._known.move_to_end(key)
        return replay

    def keep(self, key: Key, replay: Work | None) -> None:
        """None: it was done, and not recorded."""
        self._known[key] = replay
        self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)


class Graphs:
    """Records and replays a device's forwards.

    A forward is done the usual way the first time: what is compiled or chosen at first use is then
    there, and shapes that come once are not worth more. The second time it is recorded.

    Args:
        driver: of the device.
        room: where the memory is entered that recordings keep.
        recorder: None: everything is done the usual way.
    """

    def __init__(self, driver: Driver, room: Workspace, recorder: GraphRecorder | None) -> None:
        self._driver, self._room, self._recorder = driver, room, recorder
        self._taken = 0

    def run(self, recordings: Recordings, key: Key, work: Work) -> None:
        """Do it, or what was recorded of it.

        Args:
            recordings: those of the cache that it works on.
            key: everything that it depends on but numbers in fixed memory.
            work: must ask the device nothing.
        """
        if self._recorder is None:
            work()
        elif (replay := recordings.find(key)) is not None:
            replay()
        elif not recordings.knows(key):
            work()
            recordings.keep(key, None)
        elif (replay := self._recorded(self._recorder, work)) is not None:
            recordings.keep(key, replay)
            replay()
        else:
            work()

    def reserve(self, nbytes: int) -> None:
        """Have room entered for what recordings will keep; nothing where none are made."""
        if self._recorder is not None:
            self._room.reserve(nbytes)

    def _recorded(self, recorder: GraphRecorder, work: Work) -> Work | None:
        """None where it fails, from when on nothing is recorded any more."""
        self._driver.give_back()
        before = self._driver.reserved()
        try:
            replay = recorder.record(work)
            self._taken += max(self._driver.reserved() - before, 0)
            self._room.reserve(self._taken)
        except (RuntimeError, OutOfMemory) as error:  # torch's errors are RuntimeErrors
            _log.warning("forwards are not recorded from here on: %s", error)
            self._recorder = None
            return None
        return replay
