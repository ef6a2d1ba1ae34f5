"""An accelerator as a load opens it: a budget, what torch itself takes of it, and backends."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

import torch

from engine.backend.accelerator.driver import Driver, in_words
from engine.backend.accelerator.graphs import Graphs, recorder_for
from engine.backend.accelerator.memory import Workspace
from engine.backend.accelerator.products import Products
from engine.backend.accelerator.segment import AcceleratorBackend, Bench
from engine.backend.accelerator.sizes import shared_bytes
from engine.backend.device import Device
from engine.backend.ledger import Account, Allocation, Ledger, Purpose
from engine.backend.segment import Backend
from engine.backend.shared import NO_LOAN, Loan
from engine.commands import KvType, WeightFormat
from engine.machine.garbage import collect_garbage

SHARED = "device"
"""Who holds what all models on a device share."""

USUAL = {"cuda": 400 << 20, "rocm": 500 << 20, "xpu": 300 << 20}
"""By the kind of device, where nobody tells."""
RESERVE = 48 << 20
"""What torch's allocator takes beyond living tensors: it hands out parts of larger blocks."""
_LEAST = 32 << 20
"""A context takes more than that; less was measured where there was one before."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Bytes that torch counts on a device.

    Attributes:
        allocated: bytes of living tensors.
        reserved: bytes that torch has taken from the driver for tensors.
    """

    allocated: int
    reserved: int


class TorchDevice(Device):
    """See `engine.backend.device.Device`. Opening one imports torch and starts the device's driver.

    Args:
        name: torch's, as plans have it: "cuda:0", "xpu:0", "mps".
        budget: most bytes that this process may hold on it; None: no limit of ours.
        label: for people; None: what torch calls it.
        halves: whether numbers are multiplied in fp16; None: but for torch's "cpu" device, whose
            fp32 tests compare exactly.

    Raises:
        OutOfMemory: the budget, or the device, does not even hold torch itself.
        DeviceLost: it does not answer.
    """

    def __init__(
        self,
        name: str,
        budget: int | None = None,
        label: str | None = None,
        *,
        halves: bool | None = None,
    ) -> None:
        self._driver = Driver(name)
        super().__init__(Ledger(name, label or self._driver.label, budget), self._driver.transfers)
        self._own = Account(self.ledger, SHARED)
        self._entries: list[Allocation] = []
        with in_words(self._driver, self.ledger):
            runtime = runtime_bytes(self._driver)
            self._entries.append(self._own.take(Purpose.RUNTIME, runtime))
            started = self._driver.reserved() + RESERVE  # of torch's own, and part of `runtime`
            self._driver.limit(None if budget is None else budget - runtime + started)
            self._entries.append(self._own.take(Purpose.WORKSPACE, shared_bytes()))
            self._products: Products | None = Products(self._driver, halves)
        self._workspace: Workspace | None = Workspace(self._own)
        room = Workspace(self._own)
        self._graphs: Graphs | None = Graphs(self._driver, room, recorder_for(self._driver))

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
        if self._products is None or self._workspace is None or self._graphs is None:
            raise ValueError(f"{self.name} is closed")
        account = Account(self.ledger, owner)
        bench = Bench(self._driver, self._products, self._workspace, self._graphs, account)
        return AcceleratorBackend(weights, bench, loan)

    def counters(self) -> Counters:
        """Return what torch holds here, to compare with the ledger's entries other than RUNTIME."""
        return Counters(self._driver.allocated(), self._driver.reserved())

    def close(self) -> None:
        """Give all memory back; segments and caches must be dropped before."""
        self._products = self._workspace = self._graphs = None
        collect_garbage()
        while self._entries:
            self._entries.pop().release()
        with in_words(self._driver, self.ledger):
            self._driver.give_back()


def runtime_bytes(driver: Driver) -> int:
    """Bytes of the driver's context and the matrix product library, which are started here.

    Measured once per process and device. What the allocator wastes is added.
    """
    return _measured(str(driver.device)) + (RESERVE if driver.computes_apart else 0)


@cache
def _measured(name: str) -> int:
    driver = Driver(name)
    if not driver.computes_apart:
        return 0
    before, tensors = _used(driver), driver.reserved()
    _start(driver)
    after = _used(driver)
    if before is not None and after is not None:
        # What this process holds, where the driver tells; else what the device has lost meanwhile.
        for found in (after[1] - tensors, after[0] - before[0]):
            if found >= _LEAST:
                return found
    return USUAL.get(driver.kind, 0)


def _start(driver: Driver) -> None:
    """Use what is loaded, and the memory that is taken, at its first use."""
    tile = torch.ones(16, 16, dtype=torch.float16, device=driver.device)
    torch.mm(tile, tile).sum()
    torch.bmm(tile[None].float(), tile[None].float())
    driver.wait()


def _used(driver: Driver) -> tuple[int, int] | None:
    """Bytes that all programs hold on an NVIDIA card, and this process, 0 where that is secret."""
    if driver.kind != "cuda":
        return None
    import pynvml  # type: ignore[import-untyped]

    try:
        pynvml.nvmlInit()
        try:
            uuid = f"GPU-{torch.cuda.get_device_properties(driver.device).uuid}"
            handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
            by_all = int(pynvml.nvmlDeviceGetMemoryInfo(handle).used)
            ours = [
                int(process.usedGpuMemory or 0)
                for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
                if process.pid == os.getpid()
            ]
            return by_all, sum(ours)
        finally:
            pynvml.nvmlShutdown()
    except (pynvml.NVMLError, AttributeError):
        return None
