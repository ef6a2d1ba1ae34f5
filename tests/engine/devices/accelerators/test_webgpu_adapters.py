"""Adapters among the other accelerators: each card once, software never by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.devices.accelerators import webgpu_adapters
from engine.devices.accelerators.webgpu_adapters import with_adapters
from engine.errors import Absent
from engine.loading.devices import with_device
from engine.machine.facts import Accelerator, Host, Machine, Vendor

GIB = 2**30
HOST = Host(cores=8, memory_total=32 * GIB, memory_available=20 * GIB)


@dataclass
class Adapter:
    """What wgpu tells of one."""

    device: str
    vendor_id: int
    adapter_type: str
    backend_type: str = "Vulkan"
    info: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.info = {
            "device": self.device,
            "vendor_id": self.vendor_id,
            "device_id": 1,
            "adapter_type": self.adapter_type,
            "backend_type": self.backend_type,
            "description": "driver 7",
        }


LLVMPIPE = Adapter("llvmpipe (LLVM 15.0.6, 256 bits)", 65541, "CPU")
RADEON = Adapter("AMD Radeon RX 6600 (RADV NAVI23)", 0x1002, "DiscreteGPU")
ARC = Adapter("Intel(R) Graphics (ADL GT2)", 0x8086, "IntegratedGPU")
GEFORCE = Adapter("NVIDIA GeForce RTX 3060", 0x10DE, "DiscreteGPU")

ON_BUS = Accelerator(
    "", "Radeon RX 6600", Vendor.AMD, 8 * GIB, 7 * GIB, unusable="PyTorch does not find it"
)
IN_TORCH = Accelerator("cuda:0", "NVIDIA GeForce RTX 3060", Vendor.NVIDIA, 12 * GIB, 11 * GIB)


def listed(monkeypatch: pytest.MonkeyPatch, *adapters: Adapter, others: Any = ()) -> Machine:
    monkeypatch.setattr(webgpu_adapters, "adapters", lambda: adapters)
    return Machine(HOST, with_adapters(others, HOST))


def test_a_software_adapter_is_named_and_never_used_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = listed(monkeypatch, LLVMPIPE)
    (found,) = machine.accelerators
    assert (found.device, found.emulated, found.unified) == ("webgpu:0", True, True)
    assert found.driver == "Vulkan driver 7"
    assert "software adapter" in found.unusable
    assert machine.usable == ()
    (forced,) = with_device(machine, "webgpu:0").usable
    assert forced.emulated


def test_a_card_that_nobody_else_can_use_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = listed(monkeypatch, RADEON, others=[ON_BUS])
    assert machine.usable == ()
    assert "--device webgpu:0" in machine.accelerators[0].unusable
    (found,) = with_device(machine, "webgpu:0").accelerators
    assert not found.unusable
    assert (found.device, found.vendor) == ("webgpu:0", Vendor.AMD)
    assert (found.memory_total, found.memory_free) == (8 * GIB, 7 * GIB)


def test_a_card_of_torch_is_used_through_webgpu_where_it_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = listed(monkeypatch, GEFORCE, others=[IN_TORCH])
    assert machine.usable == (IN_TORCH,)
    (found,) = with_device(machine, "webgpu:0").usable
    assert (found.device, found.memory_free) == ("webgpu:0", 11 * GIB)
    assert with_device(machine, "cuda:0").usable == (IN_TORCH,)
    assert with_device(machine, "cpu").usable == ()


def test_graphics_in_the_processor_work_in_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = with_device(listed(monkeypatch, ARC), "webgpu:0").usable
    assert (found.unified, found.memory_total, found.emulated) == (True, 32 * GIB, False)


def test_memory_that_nobody_tells_is_said_to_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = listed(monkeypatch, RADEON)
    (found,) = machine.accelerators
    assert machine.usable == ()
    assert [missing.fact for missing in found.missing] == ["memory_total"]


def test_a_device_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Absent, match="no device webgpu:3"):
        with_device(listed(monkeypatch, LLVMPIPE), "webgpu:3")
