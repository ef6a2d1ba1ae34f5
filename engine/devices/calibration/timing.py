"""Work timed on a device, within a time that is set beforehand, and called off at any moment.

Forwards of small models take turns; memory is read on the host and on torch's devices, and copied
between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.backend.cpu import native_is_built
from engine.backend.device import Device
from engine.backend.ledger import Account, Ledger
from engine.devices.calibration.small_model import OWNER, Sample, SmallModel
from engine.errors import Cancelled
from engine.machine.speeds import LinkSpeed

if TYPE_CHECKING:
    from torch import Tensor

LONGEST_S = 0.15
"""A forward that would take longer is left out: a stop has to take effect meanwhile."""

MOST_ROUNDS = 30

COPIED = 64 << 20
FEW = 1024
RUNS = 8
PIECE = 16 << 20

Progress = Callable[[str, float], None]
"""Told what is being done, in words, and which part of the whole is over."""


@dataclass(slots=True)
class Course:
    """Progress of a calibration, and the time it may take.

    Attributes:
        total_s: planned seconds of all stages together.
    """

    total_s: float
    clock: Callable[[], float]
    progress: Progress
    cancelled: Callable[[], bool]
    _before_s: float = 0.0
    _stage: str = ""
    _stage_s: float = 0.0
    _allowed_s: float = 0.0
    _began: float = 0.0

    def begin(self, stage: str, seconds: float, allowed: float | None = None) -> None:
        """Begin the next stage, planned to take `seconds`; it may take `allowed`."""
        self._before_s += self._stage_s
        self._stage, self._stage_s, self._began = stage, seconds, self.clock()
        self._allowed_s = seconds if allowed is None else allowed
        self.check()

    def check(self) -> None:
        """Report progress.

        Raises:
            Cancelled: nobody wants it any more.
        """
        if self.cancelled():
            raise Cancelled
        within = min((self.clock() - self._began) / self._allowed_s, 1) if self._allowed_s else 0
        done = self._before_s + within * self._stage_s
        self.progress(self._stage, min(done / self.total_s, 1.0))

    @property
    def left(self) -> float:
        """Seconds that the stage has left."""
        return self._began + self._allowed_s - self.clock()

    def seconds(self, work: Callable[[], None]) -> float:
        """Return the seconds that `work` takes."""
        self.check()
        start = self.clock()
        work()
        return self.clock() - start


@dataclass(frozen=True, slots=True)
class TimedForward:
    """A forward that is timed again and again."""

    model: SmallModel
    rows: int
    context: int


@dataclass(slots=True)
class Timings:
    """Seconds of forwards. Models take turns, so that each finds the caches filled by others."""

    course: Course
    spent: dict[TimedForward, list[float]] = field(default_factory=dict)

    def first(self, models: Sequence[tuple[SmallModel, int]], rows: Sequence[int]) -> None:
        """Time every model once behind its context, over ascending rows.

        Rows that take too long are left out.
        """
        for model, _ in models:
            self.course.seconds(partial(model.run, 1, 0))  # threads awake, pages in place
        per_row: dict[tuple[SmallModel, int], float] = {}
        for count in rows:
            for model, context in models:
                known = per_row.get((model, context), 0.0)
                if count * known <= LONGEST_S:
                    forward = TimedForward(model, count, context)
                    found = self._time(forward) / count
                    if known and found > known:  # something was compiled meanwhile
                        self.spent.pop(forward)
                        found = self._time(forward) / count
                    per_row[model, context] = min(known or found, found)

    def repeat(self) -> None:
        """Time every forward again while the stage has time, long forwards less often."""
        fair = (self.course.left + sum(map(sum, self.spent.values()))) / len(self.spent)
        for _ in range(MOST_ROUNDS):
            for forward, spent in self.spent.items():
                if self.course.left <= 0:
                    return
                if sum(spent) < fair:
                    self._time(forward)

    def samples(self, models: Collection[tuple[SmallModel, int]]) -> list[Sample]:
        """Return a sample per timed forward of these models, at its undisturbed time."""
        return [
            forward.model.sample(forward.rows, forward.context, undisturbed(spent))
            for forward, spent in self.spent.items()
            if (forward.model, forward.context) in models
        ]

    def _time(self, forward: TimedForward) -> float:
        seconds = self.course.seconds(partial(forward.model.run, forward.rows, forward.context))
        self.spent.setdefault(forward, []).append(seconds)
        return seconds


def undisturbed(spent: Sequence[float]) -> float:
    """Return the lower quartile: other programs make a forward longer, nothing makes it shorter."""
    return sorted(spent)[(len(spent) - 1) // 4]


def host_reader(
    device: Device, nbytes: int, threads: int | None, check: Callable[[], None]
) -> Callable[[], None]:
    """Return a function that reads so many bytes of the host's memory, laid out as weights are.

    `check` is called now and then while the bytes are written; it may raise `Cancelled`.

    Raises:
        OutOfMemory: the device's budget is too small.
    """
    if not native_is_built():
        words = np.empty(nbytes // 8, dtype=np.uint64)
        _fill(words.view(np.uint8), check)
        return lambda: _forget(words.max())
    from engine.backend.native.library import library, pointer
    from engine.backend.native.memory import Arena
    from engine.backend.native.pool import shared_pool

    data = Arena(Account(device.ledger, OWNER)).take(nbytes)
    _fill(data, check)
    pool = shared_pool(threads)
    return lambda: _forget(library().dt_checksum(pool.handle, pointer(data), len(data)))


def _fill(data: NDArray[np.uint8], check: Callable[[], None]) -> None:
    for start in range(0, len(data), PIECE):
        check()
        data[start : start + PIECE] = 1


def device_reader(name: str, nbytes: int) -> Callable[[], None]:
    """Return a function that reads so many bytes of the device's memory, and waits for the end."""
    import torch

    numbers = torch.ones(nbytes // 4, dtype=torch.float32, device=name)
    return lambda: _forget(numbers.sum().item())


def measure_link(name: str, course: Course, nbytes: int = COPIED) -> LinkSpeed:
    """Time copies there and back, from pinned memory where the device has it."""
    import torch

    pinned = torch.device(name).type in ("cuda", "xpu")
    wait = torch.get_device_module(torch.device(name)).synchronize
    host = torch.ones(nbytes, dtype=torch.uint8, pin_memory=pinned)
    there = torch.ones(nbytes, dtype=torch.uint8, device=name)

    def copy(target: Tensor, source: Tensor) -> None:
        target.copy_(source, non_blocking=True)
        wait()

    def seconds(target: Tensor, source: Tensor) -> float:
        copy(target, source)
        spent = [course.seconds(partial(copy, target, source)) for _ in range(RUNS)]
        return undisturbed(spent)

    latency = max(seconds(there[:FEW], host[:FEW]), seconds(host[:FEW], there[:FEW]))
    both = seconds(there, host), seconds(host, there)
    to, back = (nbytes / max(each - latency, each / 2) for each in both)
    return LinkSpeed(name, to, back, latency)


def measure_webgpu_link(name: str, course: Course, nbytes: int = COPIED // 4) -> LinkSpeed:
    """Time copies there and back through WebGPU.

    Its forwards take numbers along and bring results back in one list of work with one wait, which
    is measured as a part of them: copies have no latency of their own.
    """
    from engine.backend.webgpu.adapters import adapter_named
    from engine.backend.webgpu.gpu import Gpu

    gpu = Gpu(adapter_named(name), Ledger(name, name, None))
    try:
        there, back = gpu.buffer(nbytes), gpu.buffer(nbytes, readable=True)
        numbers = np.ones(nbytes // 4, dtype=np.float32)

        def fetch(count: int) -> None:
            gpu.submit(lambda work: work.copy_buffer_to_buffer(there, 0, back, 0, count))
            gpu.read(back, count)

        def send() -> None:
            gpu.write(there, 0, numbers)
            fetch(FEW)

        def seconds(copy: Callable[[], None]) -> float:
            copy()
            return undisturbed([course.seconds(copy) for _ in range(RUNS)])

        wait = seconds(partial(fetch, FEW))
        both = seconds(send), seconds(partial(fetch, nbytes))
        to, back_again = (nbytes / max(each - wait, each / 2) for each in both)
        return LinkSpeed(name, to, back_again, 0.0)
    finally:
        gpu.close()


def _forget(_: object) -> None:
    """Discard what was read."""
