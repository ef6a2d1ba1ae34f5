"""What torch is built for and lists, without any device: a module in its place tells."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from stand_in_torch import GIB, card, torch_with

from engine.devices.accelerators.torch_devices import (
    TorchBuild,
    held_by_torch,
    look,
    not_built_for,
    plain_uuid,
    read_build,
    torch_build,
)
from engine.machine.facts import Vendor

CPU_ONLY = "__version__ = '2.13.0+cpu'\ncuda: Optional[str] = None\nhip: Optional[str] = None\n"


@pytest.mark.parametrize(
    ("source", "build", "vendor"),
    [
        (CPU_ONLY, TorchBuild("2.13.0+cpu"), None),
        (
            "__version__ = '2.13.0+cu130'\ncuda: Optional[str] = '13.0'\nhip = None\n",
            TorchBuild("2.13.0+cu130", cuda="13.0"),
            Vendor.NVIDIA,
        ),
        (
            "from typing import Optional\n__version__ = '2.9.0+rocm6.4'\nhip = '6.4.43482'\n",
            TorchBuild("2.9.0+rocm6.4", hip="6.4.43482"),
            Vendor.AMD,
        ),
        (
            "__version__ = '2.8.0+xpu'\nxpu: Optional[str] = '20250101'\n",
            TorchBuild("2.8.0+xpu", xpu="20250101"),
            Vendor.INTEL,
        ),
        ("__version__ = '2.6.0+xpu'\n", TorchBuild("2.6.0+xpu", xpu="2.6.0+xpu"), Vendor.INTEL),
    ],
)
def test_builds(source: str, build: TorchBuild, vendor: Vendor | None) -> None:
    found = read_build(source)
    assert found == build
    assert found.vendor is vendor


@pytest.mark.parametrize("source", ["", "cuda = '13.0'", "def (", "__version__ = 5", "\0"])
def test_files_that_say_nothing(source: str) -> None:
    assert read_build(source) is None


def test_the_installed_torch() -> None:
    import torch

    found = torch_build()
    assert found is not None
    assert found.version == torch.__version__
    assert (found.cuda, found.hip) == (torch.version.cuda or "", torch.version.hip or "")


def test_torch_is_not_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert torch_build() is None
    nowhere = importlib.util.spec_from_file_location("torch", tmp_path / "gone" / "__init__.py")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: nowhere)
    assert torch_build() is None


def test_this_torch_answers() -> None:
    """The functions that are asked exist in the installed version, whatever it finds."""
    import torch

    sight = look(torch)
    assert bool(sight.devices) or not torch.cuda.is_available()


def test_devices_of_nvidia() -> None:
    uuid = "11111111-2222-3333-4444-555555555555"
    sight = look(
        torch_with(
            cuda=[
                card("A", (8, 9), 24 * GIB, uuid=uuid),
                card("B", (6, 1), GIB, pci_domain_id=0, pci_bus_id=0x41, pci_device_id=0),
            ],
            reserved=7,
        )
    )
    first, second = sight.devices
    assert (first.device, first.identity, first.bus) == ("cuda:0", uuid, "")
    assert sight.held == {"cuda:0": 7, "cuda:1": 7}
    assert (first.architecture, first.unusable) == ("8.9", "")
    assert (second.device, second.identity, second.bus) == ("cuda:1", "", "0000:41:00.0")
    assert (
        "6.1 is older than the PyTorch installed here supports (7.5 and later)" in second.unusable
    )


def test_devices_of_amd() -> None:
    cards = [
        card("7900", (11, 0), 24 * GIB, gcnArchName="gfx1100"),
        card("6700", (10, 3), 12 * GIB, gcnArchName="gfx1031:xnack-"),
    ]
    first, second = look(torch_with(cuda=cards, hip="6.4", built_for="gfx1030 gfx1100")).devices
    assert "matrix units" not in first.without_kernels
    assert "gfx1031) has none" in second.without_kernels
    assert (first.vendor, first.architecture, first.unusable) == (Vendor.AMD, "gfx1100", "")
    assert (
        second.unusable == "the PyTorch installed here has no kernels for its architecture, gfx1031"
    )


def test_devices_of_intel_and_apple() -> None:
    arc = card("Arc B580", (0, 0), 12 * GIB, driver_version="1.6")
    (found,) = look(torch_with(xpu=[arc])).devices
    assert (found.device, found.memory_free, found.driver) == ("xpu:0", 5 * GIB, "1.6")
    (found,) = look(torch_with(mps=11 * GIB)).devices
    assert (found.device, found.memory_total, found.unified) == ("mps", 11 * GIB, True)


def test_trouble_is_told_and_kept_from_the_rest() -> None:
    sight = look(torch_with(warning="CUDA initialization: no driver\nmore", mps=GIB))
    assert sight.complaint == "CUDA initialization: no driver"
    assert [found.device for found in sight.devices] == ["mps"]

    def broken() -> bool:
        raise RuntimeError

    torch = torch_with(mps=GIB)
    torch.cuda.is_available = broken
    sight = look(torch)
    assert (sight.complaint, len(sight.devices)) == ("RuntimeError", 1)
    del torch.mps.driver_allocated_memory
    assert held_by_torch(torch, "mps") is None


@pytest.mark.parametrize(
    ("capability", "built_for", "words"),
    [
        ((8, 9), "sm_80 sm_86", ""),  # code for 8.6 runs on 8.9
        ((8, 0), "sm_86", "older"),
        (
            (3, 5),
            "sm_50 sm_60 compute_90",
            "3.5 is older than the PyTorch installed here supports (5.0 and later)",
        ),
        ((12, 0), "sm_90 compute_90", ""),  # the driver compiles
        ((12, 0), "sm_80 sm_90", "newer"),
        ((9, 0), "sm_80 sm_90a", ""),
        ((10, 3), "sm_100 compute_120", ""),
        ((5, 0), "", ""),
    ],
)
def test_architectures(capability: tuple[int, int], built_for: str, words: str) -> None:
    found = not_built_for(capability, built_for.split())
    assert words in found
    assert bool(found) == bool(words)


def test_numbers_of_cards() -> None:
    number = "11111111-2222-3333-4444-55555555abcd"
    assert plain_uuid(f"GPU-{number.upper()}") == plain_uuid(f"MIG-{number}") == number
    assert plain_uuid("00000000-0000-0000-0000-000000000000") == plain_uuid("none") == ""
