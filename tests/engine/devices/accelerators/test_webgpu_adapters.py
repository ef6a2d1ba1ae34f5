"""Adapters among the other accelerators: each card once, software never by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from engine.devices.accelerators.adapter_checks import AdapterCheck, CheckedAdapter, CheckResult
from engine.devices.accelerators.webgpu_adapters import with_adapters
from engine.errors import Absent
from engine.loading.devices import with_device
from engine.machine.facts import Accelerator, Host, Machine, Vendor
from engine.plan.memory import device_limit

GIB = 2**30
HOST = Host(cores=8, memory_total=32 * GIB, memory_available=20 * GIB)


def adapter(
    name: str, vendor: int, kind: str, verdict: CheckResult = CheckResult.PASSED, details: str = ""
) -> CheckedAdapter:
    return CheckedAdapter(name, vendor, kind, "Vulkan driver 7", (), verdict, details)


LLVMPIPE = adapter("llvmpipe (LLVM 15.0.6, 256 bits)", 65541, "CPU", CheckResult.UNTRIED)
RADEON = adapter("AMD Radeon RX 6600 (RADV NAVI23)", 0x1002, "DiscreteGPU")
ARC = adapter("Intel(R) Graphics (ADL GT2)", 0x8086, "IntegratedGPU")
GEFORCE = adapter("NVIDIA GeForce RTX 3060", 0x10DE, "DiscreteGPU")

ON_BUS = Accelerator(
    "", "Radeon RX 6600", Vendor.AMD, 8 * GIB, 7 * GIB, unusable="PyTorch does not find it"
)
IN_TORCH = Accelerator("cuda:0", "NVIDIA GeForce RTX 3060", Vendor.NVIDIA, 12 * GIB, 11 * GIB)


def listed(*adapters: CheckedAdapter, others: Sequence[Accelerator] = ()) -> Machine:
    check = AdapterCheck("of this machine", CheckResult.PASSED, "", adapters)
    return Machine(HOST, with_adapters(others, HOST, check))


def test_a_software_adapter_is_named_and_never_used_by_itself() -> None:
    machine = listed(LLVMPIPE)
    (found,) = machine.accelerators
    assert (found.device, found.emulated, found.unified) == ("webgpu:0", True, True)
    assert found.driver == "Vulkan driver 7"
    assert "software adapter" in found.unusable
    assert machine.usable == ()
    (forced,) = with_device(machine, "webgpu:0").usable
    assert forced.emulated


def test_a_card_that_nobody_else_can_use_is_used_and_listed_once() -> None:
    (found,) = listed(RADEON, others=[ON_BUS]).usable
    assert (found.device, found.vendor) == ("webgpu:0", Vendor.AMD)
    assert (found.memory_total, found.memory_free) == (8 * GIB, 7 * GIB)
    assert found.path == "through WebGPU, as PyTorch does not find it"
    assert found.identity == ON_BUS.identity


def test_a_card_of_torch_has_two_paths() -> None:
    machine = listed(GEFORCE, others=[IN_TORCH])
    torch, webgpu = machine.usable
    assert (torch.device, webgpu.device) == ("cuda:0", "webgpu:0")
    assert torch.card == webgpu.card
    assert torch.path.startswith("through PyTorch; WebGPU can run it too, as webgpu:0")
    assert webgpu.path.startswith("through WebGPU; PyTorch can run it too, as cuda:0")
    (found,) = with_device(machine, "webgpu:0").usable
    assert (found.device, found.memory_free) == ("webgpu:0", 11 * GIB)
    assert [each.device for each in with_device(machine, "cuda:0").usable] == ["cuda:0"]
    assert with_device(machine, "cpu").usable == ()


FAILURES = {
    CheckResult.CRASHED: "the GPU's driver crashed when WebGPU was tried",
    CheckResult.HUNG: "the GPU's driver did not respond when WebGPU was tried",
    CheckResult.WRONG: r"WebGPU computes wrong numbers with its driver (Q4_0: 2)",
    CheckResult.FAILED: r"WebGPU cannot use it (Q4_0: 2)",
}


@pytest.mark.parametrize("verdict", FAILURES)
def test_a_card_that_failed_its_check_is_not_used_and_says_why(verdict: CheckResult) -> None:
    failed = replace(RADEON, verdict=verdict, details="Q4_0: 2")
    machine = listed(failed, others=[ON_BUS])
    (found,) = machine.accelerators
    assert found.unusable == f"{FAILURES[verdict]}; PyTorch does not find it"
    assert with_device(machine, "webgpu:0").usable == (), "by its name neither"
    (found,) = listed(replace(failed, vendor_id=0x10DE), others=[IN_TORCH]).accelerators
    assert not found.unusable
    assert found.path == f"through PyTorch, as {FAILURES[verdict]}"


def test_a_driver_that_crashes_is_told_at_every_card_that_nobody_drives() -> None:
    check = AdapterCheck("of this machine", CheckResult.CRASHED)
    card, torch = with_adapters([ON_BUS, IN_TORCH], HOST, check)
    assert card.unusable.endswith(FAILURES[CheckResult.CRASHED])
    assert torch == replace(IN_TORCH, path="through PyTorch")
    (card,) = with_adapters([ON_BUS], HOST, replace(check, verdict=CheckResult.PASSED))
    assert card.unusable == "PyTorch does not find it; WebGPU finds no driver for it"


def test_cards_that_were_not_tried_yet_say_so() -> None:
    card, torch = with_adapters([ON_BUS, IN_TORCH], HOST, None)
    assert card.unusable.endswith("WebGPU is tried when the devices are measured")
    assert torch == replace(IN_TORCH, path="through PyTorch")


def test_graphics_in_the_processor_work_in_its_memory() -> None:
    (found,) = listed(ARC).usable
    assert (found.unified, found.memory_total, found.emulated) == (True, 32 * GIB, False)


def test_memory_of_a_card_that_only_vulkan_tells() -> None:
    own = replace(ARC, name="Intel(R) Arc(tm) A580 Graphics (DG2)", kind="DiscreteGPU")
    (found,) = listed(replace(own, memory=8 * GIB)).usable
    assert (found.memory_total, found.memory_free, found.missing) == (8 * GIB, None, ())
    assert 7 * GIB < device_limit(found) < 8 * GIB
    (both,) = listed(replace(RADEON, memory=7 * GIB), others=[ON_BUS]).usable
    assert both.memory_free == 7 * GIB


def test_memory_that_nobody_tells_is_said_to_be_missing() -> None:
    machine = listed(RADEON)
    (found,) = machine.accelerators
    assert machine.usable == ()
    assert [missing.fact for missing in found.missing] == ["memory_total"]


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(Absent, match="no device webgpu:3"):
        with_device(listed(LLVMPIPE), "webgpu:3")
