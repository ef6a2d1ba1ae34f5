"""The processor of a simulated accelerator: one call after the other, on a core of its own.

A call takes the declared time for the bytes that it reads.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Event, Lock
from time import perf_counter
from types import TracebackType
from typing import Self

from engine.backend.device import Transfers
from engine.backend.native.library import (
    BlockStruct,
    Format,
    Matrix,
    Mlp,
    NativeKv,
    SegmentStruct,
    library,
)
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.workspace import kv_token_bytes
from engine.backend.simulated.spec import SimulatedSpec, simulated_name, simulated_speeds
from engine.commands import KvType
from engine.errors import DeviceLost
from engine.language import tr
from engine.machine.speeds import DeviceSpeeds

_KIND_OF: dict[Format, str] = {fmt: kind for kind, fmt in NATIVE_KINDS.items()}


@dataclass(frozen=True, slots=True)
class Reads:
    """Bytes of weights of one type; `chosen` is the share of them that a row goes through."""

    kind: str
    nbytes: int
    chosen: float = 1.0

    def seconds(self, rows: int, speeds: DeviceSpeeds) -> float:
        """Seconds of the products with so many rows; experts are chosen at random."""
        share = 1 - (1 - self.chosen) ** rows
        return self.nbytes * share * speeds.product(self.kind).seconds_per_byte(rows)


@dataclass(frozen=True, slots=True)
class Work:
    """Bytes that a segment's forwards read.

    Attributes:
        blocks: weights of all blocks.
        head: weights of the head.
        features: of a feature head, those that only its target's features go through.
        kv: bytes of a token's keys and values, each with the tokens of its window; 0: all.
    """

    blocks: tuple[Reads, ...]
    head: tuple[Reads, ...]
    kv: tuple[tuple[int, int], ...]
    features: tuple[Reads, ...] = ()

    def products(
        self, rows: int, logit_rows: int, speeds: DeviceSpeeds, *, own: bool = False
    ) -> float:
        """Seconds of a forward's products.

        Args:
            rows: new tokens.
            logit_rows: those whose logits are wanted.
            speeds: of the device.
            own: a feature head goes on from what it put out itself.
        """
        seconds = sum(read.seconds(rows, speeds) for read in self.blocks)
        if not own:
            seconds += sum(read.seconds(rows, speeds) for read in self.features)
        if logit_rows:
            seconds += sum(read.seconds(logit_rows, speeds) for read in self.head)
        return seconds

    def attention(self, rows: int, tokens: int, speeds: DeviceSpeeds) -> float:
        """Seconds of a forward's attention to a sequence of so many tokens, new ones included."""
        keys = sum(nbytes * min(window or tokens, tokens) for nbytes, window in self.kv)
        return keys * speeds.attending().seconds_per_byte(rows)

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values in all blocks."""
        return sum(nbytes for nbytes, _ in self.kv)


def work_of(segment: SegmentStruct) -> Work:
    """Return what a native segment's forwards read."""
    blocks = [segment.block[index] for index in range(segment.blocks)]
    fused = list(_fusion(segment))
    features: list[Reads] = []
    if fused and not segment.fusion.contents.join.rows:
        fused, features = [], fused
    kv, looks = KvType[NativeKv(segment.kv_type).name], Counter[int]()
    for block in blocks:
        looks[block.window] += kv_token_bytes(block.kv_heads, block.head_dim, kv)
    return Work(
        blocks=_summed([*fused, *(read for block in blocks for read in _block(block))]),
        head=_summed([*_matrices([segment.head])]),
        kv=tuple((nbytes, window) for window, nbytes in looks.items()),
        features=_summed(features),
    )


def _block(block: BlockStruct) -> Iterator[Reads]:
    experts = block.experts
    yield from _matrices([*block.in_, block.out, *_mlp(block.mlp), *experts.router])
    for index in range(experts.count):
        yield from _matrices(_mlp(experts.expert[index]), experts.used / experts.count)
    if experts.shared:
        yield from _matrices(_mlp(experts.expert[experts.count]))


def _fusion(segment: SegmentStruct) -> Iterator[Reads]:
    if segment.fusion:
        fusion = segment.fusion.contents
        yield from _matrices([fusion.feature, fusion.token, fusion.join])


def _mlp(mlp: Mlp) -> list[Matrix]:
    return [*mlp.gate_up, mlp.down]


def _matrices(matrices: Sequence[Matrix], chosen: float = 1.0) -> Iterator[Reads]:
    for matrix in matrices:
        if matrix.rows:
            nbytes = library().dt_packed_bytes(matrix.format, matrix.rows, matrix.cols)
            yield Reads(_KIND_OF[Format(matrix.format)], nbytes, chosen)


def _summed(reads: Sequence[Reads]) -> tuple[Reads, ...]:
    sums: Counter[tuple[str, float]] = Counter()
    for read in reads:
        sums[read.kind, read.chosen] += read.nbytes
    return tuple(Reads(kind, nbytes, chosen) for (kind, chosen), nbytes in sums.items())


PATIENCE_S = 0.05
"""A waiting call asks so often whether the user has stopped it."""
SPIN_S = 250e-6
"""The last moments of a wait are not slept: sleepers wake up late by about as much."""


@dataclass(slots=True)
class Copies:
    """Copies over the link in one direction."""

    count: int = 0
    nbytes: int = 0

    def add(self, nbytes: int) -> None:
        """Count one."""
        self.count += 1
        self.nbytes += nbytes


class Processor:
    """Serves one call at a time: `with processor: ...`, which ends when its declared time is over.

    Inside, the calling thread has the device's core, and tells what the call is worth: `computes`,
    `receives`, `sends`.

    Args:
        spec: what the device declares.

    Attributes:
        speeds, link: the same, as the cost model sees it.
        core: what it computes on; None where threads cannot choose, or there is one core only.
        interrupted: asked while a call waits for its declared time; true ends the waiting.
        received, sent: copies to the device and from it.
        transfers: when they were, as declared.
        busy_s: seconds of all calls so far.
        declared_s: what they took as declared.
    """

    def __init__(self, spec: SimulatedSpec) -> None:
        self.speeds, self.link = simulated_speeds(spec)
        self.core = _last_core()
        self.interrupted: Callable[[], bool] = lambda: False
        self.received, self.sent = Copies(), Copies()
        self.transfers = Transfers()
        self.busy_s = self.declared_s = 0.0
        self._lock = Lock()
        self._lost = Event()
        self._start = self._declared = self._receiving = self._sending = 0.0
        self._before: Iterable[int] | None = None

    def lose(self) -> None:
        """Fail all calls from now on, one under way included."""
        self._lost.set()

    def check(self) -> None:
        """Raise `DeviceLost` if the device is lost."""
        if self._lost.is_set():
            raise DeviceLost(
                tr("{device} stopped responding.").format(device=simulated_name()),
                tr("Load the model again; it will run without this device."),
            )

    def computes(self, seconds: float) -> None:
        """Add so many seconds of computing to the call."""
        self._declared += seconds

    def receives(self, nbytes: int) -> None:
        """Add a copy to the device."""
        self.received.add(nbytes)
        seconds = self.link.latency_s + nbytes / self.link.to_bytes_per_s
        self._declared += seconds
        self._receiving += seconds

    def sends(self, nbytes: int) -> None:
        """Add a copy back to the host."""
        self.sent.add(nbytes)
        seconds = self.link.latency_s + nbytes / self.link.from_bytes_per_s
        self._declared += seconds
        self._sending += seconds

    def __enter__(self) -> Self:
        self._lock.acquire()
        try:
            self.check()
        except DeviceLost:
            self._lock.release()
            raise
        self._receiving = self._sending = 0.0
        self._start, self._declared = perf_counter(), self.speeds.forward_s
        self._take_core()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._wait(self._start + self._declared)
                self.check()
        finally:
            self._leave_core()
            end = perf_counter()
            self.declared_s += self._declared
            self.busy_s += end - self._start
            self._note_copies(end)
            self._lock.release()

    def _note_copies(self, end: float) -> None:
        """A call begins with what it receives and ends with what it sends, as long as declared."""
        if self._receiving:
            self.transfers.note(self._start, min(self._start + self._receiving, end))
        if self._sending:
            self.transfers.note(max(end - self._sending, self._start), end)

    def _wait(self, end: float) -> None:
        let_others = library().dt_current_isa  # a native call gives the GIL up; sleep(0) sleeps
        while (left := end - perf_counter()) > 0 and not self._lost.is_set():
            if left <= SPIN_S:
                let_others()
            elif self.interrupted():
                return
            else:
                self._lost.wait(min(left - SPIN_S, PATIENCE_S))

    if sys.platform == "linux":

        def _take_core(self) -> None:
            if self.core is not None:
                self._before = os.sched_getaffinity(0)
                with suppress(OSError):  # it was taken from the process
                    os.sched_setaffinity(0, {self.core})

        def _leave_core(self) -> None:
            if self._before is not None:
                with suppress(OSError):
                    os.sched_setaffinity(0, self._before)
                self._before = None

    else:

        def _take_core(self) -> None: ...

        def _leave_core(self) -> None: ...


def _last_core() -> int | None:
    if sys.platform != "linux":
        return None
    cores = os.sched_getaffinity(0)
    return max(cores) if len(cores) > 1 else None
