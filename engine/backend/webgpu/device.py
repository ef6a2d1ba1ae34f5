"""A WebGPU device as a load opens it: a budget, and backends."""

from __future__ import annotations

from engine.backend.device import Device
from engine.backend.ledger import Account, Allocation, Ledger, Purpose
from engine.backend.segment import Backend
from engine.backend.shared import NO_LOAN, Loan
from engine.backend.webgpu.adapters import adapter_named, is_software
from engine.backend.webgpu.gpu import Gpu
from engine.backend.webgpu.segment import WebGpuBackend
from engine.backend.webgpu.sizes import LARGEST_TILE, RUNTIME
from engine.commands import KvType, WeightFormat
from engine.machine.garbage import collect_garbage

_SOFTWARE_TILE = 4
"""A software adapter takes seconds to compile products of 16 rows."""


class WebGpuDevice(Device):
    """See `engine.backend.device.Device`. Opening one starts the adapter's driver.

    Args:
        name: of the device in plans: "webgpu:0".
        budget: most bytes that this process may hold on it; None: no limit of ours.
        label: for people; None: what the driver calls it.

    Raises:
        Absent: there is no such adapter.
        OutOfMemory: the budget does not even hold the driver.
    """

    def __init__(self, name: str, budget: int | None = None, label: str | None = None) -> None:
        adapter = adapter_named(name)
        ledger = Ledger(name, label or adapter.info["device"], budget)
        self._own = Account(ledger, "device")
        self._entries: list[Allocation] = [self._own.take(Purpose.RUNTIME, RUNTIME)]
        self.gpu: Gpu | None = Gpu(adapter, ledger)
        self._tile = _SOFTWARE_TILE if is_software(adapter) else LARGEST_TILE
        super().__init__(ledger, self.gpu.transfers)  # of forwards there or back, by its clock

    def backend(
        self,
        weights: WeightFormat,
        owner: str,
        loan: Loan = NO_LOAN,
        kv: KvType = KvType.F16,  # noqa: ARG002 - keys and values are 16-bit floats here
    ) -> Backend:
        """Compiles segments whose allocations are entered for `owner`.

        Raises:
            ValueError: the device is closed.
        """
        if self.gpu is None:
            raise ValueError(f"{self.name} is closed")
        return WebGpuBackend(weights, self.gpu, Account(self.ledger, owner), self._tile, loan)

    def close(self) -> None:
        """Give all memory back; segments and caches must be dropped before."""
        gpu, self.gpu = self.gpu, None
        collect_garbage()
        while self._entries:
            self._entries.pop().release()
        if gpu is not None:
            gpu.close()
