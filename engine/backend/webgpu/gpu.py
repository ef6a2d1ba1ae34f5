"""A WebGPU device: its buffers, kernels and queue, and errors in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import wgpu
from numpy.typing import NDArray

from engine.backend.device import Transfers
from engine.backend.ledger import GIB, Account, Allocation, Ledger, Purpose
from engine.backend.webgpu.clock import FEATURE, DeviceClock, KernelClock
from engine.backend.webgpu.shaders import assembled, bindings
from engine.errors import DeviceLost, OutOfMemory
from engine.language import sentences, tr

Buffer = Any
"""A buffer on the device, wgpu.GPUBuffer."""
Group = Any
"""Buffers bound to a kernel, wgpu.GPUBindGroup."""
Numbers = NDArray[Any]

_WANTED = (
    "max-buffer-size",
    "max-storage-buffer-binding-size",
    "max-storage-buffers-per-shader-stage",
    "max-compute-workgroup-storage-size",
)
"""Limits that are asked for as high as the adapter has them."""


@dataclass(slots=True)
class DeviceWork:
    """Work that was handed to a device, and what it was waited for.

    Attributes:
        dispatches: by the kernel's name.
        weights: bytes of matrices that products were bound to, for each time that they read them.
        submits: lists of work.
        waits: times that the host waited.
        writes, written: copies to the device, and their bytes.
        read: bytes copied back.
    """

    dispatches: dict[str, int] = field(default_factory=dict)
    weights: int = 0
    submits: int = 0
    waits: int = 0
    writes: int = 0
    written: int = 0
    read: int = 0


class Kernel:
    """A shader with an entry point `main`, compiled at first use for each number of rows.

    Attributes:
        name: the last of the files it is made of.
    """

    def __init__(self, device: Any, names: Sequence[str]) -> None:  # noqa: ANN401
        self.name, self._names, self._device = names[-1], tuple(names), device
        kinds = bindings(names)
        self._numbers = tuple(kinds)
        self._layout = device.create_bind_group_layout(
            entries=[
                {
                    "binding": number,
                    "visibility": wgpu.ShaderStage.COMPUTE,
                    "buffer": {"type": kind},
                }
                for number, kind in kinds.items()
            ]
        )
        self._pipelines: dict[int, Any] = {}

    def pipeline(self, rows: int) -> Any:  # noqa: ANN401
        """Return the compiled kernel for so many rows at once."""
        found = self._pipelines.get(rows)
        if found is None:
            device = self._device
            module = device.create_shader_module(code=assembled(self._names, rows))
            layout = device.create_pipeline_layout(bind_group_layouts=[self._layout])
            stage = {"module": module, "entry_point": "main"}
            found = device.create_compute_pipeline(layout=layout, compute=stage)
            self._pipelines[rows] = found
        return found

    def group(self, *buffers: Buffer | BufferRegion) -> Group:
        """Bind buffers, in the order of the bindings."""
        entries = [
            {"binding": number, "resource": _resource(buffer)}
            for number, buffer in zip(self._numbers, buffers, strict=True)
        ]
        return self._device.create_bind_group(layout=self._layout, entries=entries)


@dataclass(frozen=True, slots=True)
class BufferRegion:
    """A part of a buffer. Every adapter lets one begin at a multiple of 256, as `offset` is."""

    buffer: Buffer
    offset: int
    nbytes: int


def _resource(bound: Buffer | BufferRegion) -> dict[str, object]:
    if isinstance(bound, BufferRegion):
        return {"buffer": bound.buffer, "offset": bound.offset, "size": bound.nbytes}
    return {"buffer": bound, "offset": 0, "size": bound.size}


class Gpu:
    """An opened adapter.

    Args:
        adapter: a wgpu.GPUAdapter.
        ledger: of the device; names it in errors.

    Attributes:
        counts: what was done since the start.
        clock: the device's own, where it has one.
        kernel_clock: times every dispatch, where somebody looks for what is slow.
        transfers: when forwards were on their way there or back, and the device did not compute.
    """

    def __init__(self, adapter: Any, ledger: Ledger) -> None:  # noqa: ANN401
        self._ledger = ledger
        limits = {name: adapter.limits[name] for name in _WANTED}
        features = {FEATURE} & set(adapter.features)
        self._device: Any = adapter.request_device_sync(
            required_limits=limits, required_features=sorted(features)
        )
        self.clock = DeviceClock(self._device) if features else None
        self.kernel_clock: KernelClock | None = None
        self._queue: Any = self._device.queue
        self._kernels: dict[tuple[str, ...], Kernel] = {}
        self._uniforms: dict[bytes, tuple[Buffer, Allocation]] = {}
        self.limits: Mapping[str, int] = limits
        self.counts = DeviceWork()
        self.transfers = Transfers()

    @contextmanager
    def timed_kernels(self) -> Iterator[KernelClock | None]:
        """Time every dispatch within, which takes longer then; None: the device has no clock."""
        self.kernel_clock = None if self.clock is None else KernelClock(self._device)
        try:
            yield self.kernel_clock
        finally:
            self.kernel_clock = None

    @property
    def most_bound(self) -> int:
        """Most bytes that a kernel sees of one buffer."""
        limits = self.limits
        return min(limits["max-storage-buffer-binding-size"], limits["max-buffer-size"])

    def kernel(self, *names: str) -> Kernel:
        """Return the kernel made of these files, always the same one."""
        found = self._kernels.get(names)
        if found is None:
            found = self._kernels[names] = Kernel(self._device, names)
        return found

    def buffer(self, nbytes: int, *, readable: bool = False) -> Buffer:
        """Return a buffer of zeros, which callers have entered; `readable`: for the host."""
        use = wgpu.BufferUsage
        usage = use.COPY_DST | (
            use.MAP_READ if readable else use.STORAGE | use.UNIFORM | use.COPY_SRC
        )
        with self.in_words(nbytes):
            return self._device.create_buffer(size=nbytes, usage=usage)

    def uniform(self, account: Account, fields: Sequence[int | float]) -> Buffer:
        """Return a buffer with these 32-bit numbers; one for all kernels that want the same."""
        words = [
            np.float32(each).tobytes() if isinstance(each, float) else np.uint32(each).tobytes()
            for each in fields
        ]
        content = b"".join(words)
        content += bytes(-len(content) % 16)
        if content not in self._uniforms:
            entry = account.take(Purpose.WORKSPACE, len(content)).lasts_as_long_as(self)
            buffer = self.buffer(len(content))
            self._queue.write_buffer(buffer, 0, content)
            self._uniforms[content] = buffer, entry
        return self._uniforms[content][0]

    def write(self, buffer: Buffer, offset: int, numbers: Numbers) -> None:
        """Copy numbers to the device, behind all work submitted so far."""
        self.counts.writes += 1
        self.counts.written += numbers.nbytes
        with self.in_words():
            self._queue.write_buffer(buffer, offset, np.ascontiguousarray(numbers))

    def flush(self) -> None:
        """Hand over copies that wait for the next work."""
        with self.in_words():
            self._queue.submit([])

    def submit(self, record: Callable[[Any], None]) -> None:
        """Record work with a command encoder, and hand it over without waiting."""
        with self.in_words():
            encoder = self._device.create_command_encoder()
            record(encoder)
            self._queue.submit([encoder.finish()])
        self.counts.submits += 1

    def read(self, buffer: Buffer, nbytes: int) -> NDArray[np.float32]:
        """Wait for all work, and return the first bytes of a readable buffer as fp32."""
        self.counts.waits += 1
        self.counts.read += nbytes
        with self.in_words():
            buffer.map_sync(wgpu.MapMode.READ, 0, nbytes)
            try:
                seen = buffer.read_mapped(0, nbytes, copy=False)
                return np.frombuffer(seen, dtype=np.float32).copy()
            finally:
                buffer.unmap()

    def close(self) -> None:
        """Give everything back to the driver."""
        self._kernels.clear()
        self.clock = None
        while self._uniforms:
            self._uniforms.popitem()[1][1].release()
        self._device.destroy()

    @contextmanager
    def in_words(self, needed: int | None = None) -> Iterator[None]:
        """Say what went wrong on the device.

        Raises:
            OutOfMemory: it is full; `needed` bytes were asked for.
            DeviceLost: it has to be opened again, and what lay on it is gone.
        """
        try:
            yield
        except wgpu.GPUOutOfMemoryError as error:
            raise self._full(needed, str(error)) from error
        except (wgpu.GPUError, RuntimeError) as error:
            said = str(error).lower()
            if "out of memory" in said or "not enough memory" in said:
                raise self._full(needed, str(error)) from error
            if "lost" in said or "destroyed" in said or "device is invalid" in said:
                raise DeviceLost(
                    tr("{device} stopped responding.").format(device=self._ledger.name),
                    tr("Load the model again; it will run without this device."),
                    str(error),
                ) from error
            raise RuntimeError(str(error)) from error

    def _full(self, needed: int | None, details: str) -> OutOfMemory:
        causes = [tr("{device} has no memory left.").format(device=self._ledger.name)]
        if needed is not None:
            causes.append(tr("{needed:.2f} GiB were needed.").format(needed=needed / GIB))
        return OutOfMemory(
            sentences(*causes),
            tr("Close other programs that use it, lower the budget or choose a shorter context."),
            details,
        )
