"""What is asked of torch's device modules and NVML, told by recorded answers."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch

from engine.backend.accelerator import device as runtime
from engine.backend.accelerator.driver import Driver

GIB, MIB = 1 << 30, 1 << 20


class Module:
    """Like torch.cuda, of a card with 8 GiB."""

    def __init__(self, *, telling: bool = True) -> None:
        self.shares: list[float] = []
        self._telling = telling

    def mem_get_info(self, _device: torch.device) -> tuple[int, int]:
        if not self._telling:
            raise RuntimeError("this device does not tell its free memory")
        return 3 * GIB, 8 * GIB

    def get_device_properties(self, _device: torch.device) -> Any:
        return SimpleNamespace(total_memory=8 * GIB, uuid="12-34")

    def set_per_process_memory_fraction(self, share: float, _device: torch.device) -> None:
        self.shares.append(share)

    def memory_reserved(self, _device: torch.device) -> int:
        return 10 * MIB

    def current_stream(self, _device: torch.device) -> None:
        return None

    Event = MagicMock


def driver_of(module: Module) -> Driver:
    driver = Driver("cpu")
    driver._module = module
    return driver


def test_torch_is_held_to_its_part_of_the_card() -> None:
    module = Module(telling=False)
    driver = driver_of(module)
    for most in (2 * GIB, None, 9 * GIB, -1):
        driver.limit(most)
    assert module.shares == [0.25, 1.0, 1.0, 0.0]
    assert driver.free_and_total() is None
    assert driver_of(Module()).free_and_total() == (3 * GIB, 8 * GIB)


class Card:
    """NVML with one card, of which each question finds more taken."""

    NVMLError = OSError

    def __init__(self, used: list[int], ours: list[int | None]) -> None:
        self._used, self._ours = iter(used), iter(ours)

    def nvmlInit(self) -> None:  # noqa: N802
        pass

    nvmlShutdown = nvmlInit  # noqa: N815

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        assert uuid == "GPU-12-34"
        return "card"

    def nvmlDeviceGetMemoryInfo(self, _card: str) -> Any:  # noqa: N802
        return SimpleNamespace(used=next(self._used))

    def nvmlDeviceGetComputeRunningProcesses(self, _card: str) -> list[Any]:  # noqa: N802
        ours = next(self._ours)
        return [SimpleNamespace(pid=pid, usedGpuMemory=ours) for pid in (1, os.getpid())]


@pytest.mark.parametrize(
    ("used", "ours", "expected"),
    [
        ([1 * GIB, 1 * GIB + 300 * MIB], [0, 310 * MIB], 300 * MIB),
        ([1 * GIB, 1 * GIB + 300 * MIB], [None, None], 300 * MIB),
        ([1 * GIB, 1 * GIB], [None, None], runtime.USUAL["cuda"]),
    ],
    ids=["told", "secret", "started before"],
)
def test_what_torch_itself_takes_is_measured(
    monkeypatch: pytest.MonkeyPatch, used: list[int], ours: list[int | None], expected: int
) -> None:
    """10 MiB of what the process holds are tensors that were there before."""
    module = Module()
    monkeypatch.setitem(sys.modules, "pynvml", Card(used, ours))
    monkeypatch.setattr(Driver, "kind", "cuda")
    monkeypatch.setattr(runtime, "Driver", lambda _name: driver_of(module))
    monkeypatch.setattr(torch.cuda, "get_device_properties", module.get_device_properties)
    runtime._measured.cache_clear()
    driver = driver_of(module)
    assert runtime.runtime_bytes(driver) == expected + runtime.RESERVE
    assert runtime.runtime_bytes(driver) == expected + runtime.RESERVE, "once per process"
    runtime._measured.cache_clear()
