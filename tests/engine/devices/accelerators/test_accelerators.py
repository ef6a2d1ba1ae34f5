"""Cards found by NVIDIA's library, the bus and torch are put together, or told why they cannot."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from recorded import record
from recorded_nvml import DIVIDED, FIRST, GIB, LAPTOP, SECOND, TWO_CARDS, FakeNvml
from stand_in_torch import card, torch_with

from engine.devices import probe
from engine.devices.accelerators.system_gpus import described
from engine.devices.accelerators.torch_devices import TorchBuild
from engine.machine.facts import Accelerator, Machine, PcieLink, Vendor
from engine.machine.system_files import SystemFiles

CUDA = TorchBuild("2.13.0+cu126", cuda="12.6")
ROCM = TorchBuild("2.13.0+rocm7.1", hip="7.1")
XPU = TorchBuild("2.13.0+xpu", xpu="20250101")
CPU_ONLY = TorchBuild("2.13.0+cpu")
FOLDER = "sys/bus/pci/devices"


def gpu(bus: str, vendor: str, device: str, **files: str) -> dict[str, str]:
    """A graphics processor's folder in /sys."""
    facts = {"class": "0x030000", "vendor": vendor, "device": device, **files}
    return {f"{FOLDER}/{bus}/{name}": f"{content}\n" for name, content in facts.items()}


RX_7900 = gpu(
    "0000:03:00.0",
    "0x1002",
    "0x744c",
    mem_info_vram_total=str(24 * GIB),
    mem_info_vram_used=str(6 * GIB),
    current_link_speed="16.0 GT/s PCIe",
    current_link_width="16",
    max_link_speed="16.0 GT/s PCIe",
    max_link_width="16",
)
RYZEN = gpu("0000:0f:00.0", "0x1002", "0x164e", mem_info_vram_total=str(GIB // 2))
INTEL_OWN = gpu("0000:00:02.0", "0x8086", "0xa7a0")
ARC = gpu("0000:04:00.0", "0x8086", "0xe20b")
GEFORCE = gpu("0000:01:00.0", "0x10de", "0x2504")
NOT_FOR_COMPUTING = {
    **gpu("0000:05:00.0", "0x1a03", "0x2000"),  # a server's own picture
    f"{FOLDER}/0000:06:00.0/class": "0x020000\n",  # a network card of Intel's
    f"{FOLDER}/0000:06:00.0/vendor": "0x8086\n",
}
NAMES = (
    "1001  Others\n\t744c  Wrong\n1002  Advanced Micro Devices, Inc. [AMD/ATI]\n"
    "\t164e  Raphael\n\t744c  Navi 31 [Radeon RX 7900 XT/7900 XTX]\n\t\t1002 0e3b  Wrong\n"
    "10de  NVIDIA Corporation\n\t2504  GA106 [GeForce RTX 3060 Lite Hash Rate]\n"
)


class Case:
    """A machine to probe: what its files, its drivers and its torch say."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._root, self._patch = root, monkeypatch
        self.imported: list[str] = []
        for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"):
            monkeypatch.delenv(name, raising=False)

    def probe(
        self,
        build: TorchBuild | None,
        *trees: dict[str, str],
        torch: ModuleType | None = None,
        available: int = 8 * GIB,
    ) -> tuple[Accelerator, ...]:
        def give(name: str) -> ModuleType:
            self.imported.append(name)
            assert torch is not None, "torch was imported without need"
            return torch

        files = record(self._root, *trees)
        self._patch.setattr(probe, "LINUX", True)
        self._patch.setattr(probe, "SystemFiles", lambda: SystemFiles(files.root))
        self._patch.setattr(probe, "torch_build", lambda: build)
        self._patch.setattr(probe.importlib, "import_module", give)
        return probe.probe_accelerators(available)


@pytest.fixture
def case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    return Case(tmp_path, monkeypatch)


def test_torch_counts_in_another_order(case: Case, nvml: FakeNvml) -> None:
    """Torch puts the fastest first, the driver goes by the bus: UUIDs tell who is who."""
    nvml.records(TWO_CARDS)
    fast = card("NVIDIA GeForce RTX 3060", (8, 6), 12 * GIB, uuid=FIRST.removeprefix("GPU-"))
    slow = card("NVIDIA GeForce GTX 1050", (6, 1), 4 * GIB, uuid=SECOND.removeprefix("GPU-"))
    torch = torch_with(cuda=[slow, fast], reserved=512, built_for="sm_61 sm_86")
    first, second = case.probe(CUDA, GEFORCE, torch=torch)
    assert (first.device, first.name) == ("cuda:1", "NVIDIA GeForce RTX 3060")
    assert (second.device, second.name) == ("cuda:0", "NVIDIA GeForce GTX 1050")
    assert (first.memory_total, first.memory_free) == (12 * GIB, 11 * GIB)  # 1 GiB of it ours
    assert first.memory_of_others == GIB
    assert second.memory_free == 3 * GIB + 512  # the driver does not tell ours, torch does
    assert first.identity == FIRST
    assert (first.architecture, first.driver) == ("8.6", "570.86.15")
    assert first.link == PcieLink(1, 8, 4, 16)
    assert Machine(probe.probe_host(), (first, second)).usable == (first, second)


def test_addresses_where_torch_tells_no_uuid(case: Case, nvml: FakeNvml) -> None:
    nvml.records(TWO_CARDS)
    place = {"pci_domain_id": 0, "pci_bus_id": 0x41, "pci_device_id": 0}
    torch = torch_with(cuda=[card("GTX 1050", (6, 1), 4 * GIB, **place)], built_for="sm_61")
    first, second = case.probe(CUDA, torch=torch)
    assert (first.device, second.device) == ("", "cuda:0")


def test_a_card_that_is_hidden(case: Case, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml.records(TWO_CARDS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SECOND)
    only = card("GTX 1050", (6, 1), 4 * GIB, uuid=SECOND.removeprefix("GPU-"))
    first, second = case.probe(CUDA, torch=torch_with(cuda=[only], built_for="sm_61"))
    assert (first.device, first.unusable) == ("", f"CUDA_VISIBLE_DEVICES={SECOND} hides it")
    assert (second.device, second.unusable) == ("cuda:0", "")


@pytest.mark.parametrize("none", ["", "-1"])
def test_all_are_hidden(
    case: Case, nvml: FakeNvml, monkeypatch: pytest.MonkeyPatch, none: str
) -> None:
    """Then torch is not even imported."""
    nvml.records(LAPTOP)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
    (found,) = case.probe(CUDA)
    assert found.unusable == f"CUDA_VISIBLE_DEVICES={none} hides it"


def test_a_torch_for_cpus_is_not_even_imported(case: Case, nvml: FakeNvml) -> None:
    nvml.records(LAPTOP)
    nvidia, intel = case.probe(CPU_ONLY, INTEL_OWN, GEFORCE, NOT_FOR_COMPUTING)
    assert nvidia.unusable == intel.unusable == "the PyTorch installed here computes on CPUs only"
    assert (nvidia.memory_total, nvidia.memory_free) == (4 * GIB, 4 * GIB - 1000)
    assert (intel.vendor, intel.unified, intel.memory_total) == (Vendor.INTEL, True, None)
    assert [entry.fact for entry in intel.missing] == ["memory_total"]
    assert not case.imported


def test_no_torch_at_all(case: Case, nvml: FakeNvml) -> None:
    nvml.records(LAPTOP)
    assert [found.unusable for found in case.probe(None)] == ["PyTorch is not installed"]


def test_a_driver_too_old_for_this_torch(case: Case, nvml: FakeNvml) -> None:
    nvml.records(LAPTOP)
    torch = torch_with(warning="The NVIDIA driver on your system is too old")
    (found,) = case.probe(TorchBuild("2.13.0+cu130", cuda="13.0"), GEFORCE, torch=torch)
    assert found.unusable == (
        "its driver 535.54.03 is older than the PyTorch installed here needs: it serves CUDA 12.2, "
        "PyTorch is built for 13.0"
    )
    assert not found.device


def test_a_card_too_old_for_this_torch(case: Case, nvml: FakeNvml) -> None:
    nvml.records(LAPTOP.replace("capability 7.5", "capability 3.5"))
    torch = torch_with(
        cuda=[card("GTX", (3, 5), 4 * GIB, uuid=FIRST.removeprefix("GPU-"))],
        built_for="sm_50 sm_90",
    )
    (found,) = case.probe(CUDA, torch=torch)
    assert "3.5 is older than the PyTorch installed here supports (5.0 and later)" in found.unusable


def test_parts_of_a_divided_card(case: Case, nvml: FakeNvml) -> None:
    """Torch sees one part at a time; the other has the same address."""
    nvml.records(DIVIDED)
    part = card(
        "NVIDIA A100-SXM4-40GB MIG 2g.10gb",
        (8, 0),
        10 * GIB,
        uuid="bbbbbbbb-0000-0000-0000-000000000002",
        pci_domain_id=0,
        pci_bus_id=7,
        pci_device_id=0,
    )
    first, second = case.probe(CUDA, torch=torch_with(cuda=[part]))
    assert (first.device, second.device) == ("", "cuda:0")
    assert second.memory_total == 10 * GIB


def test_a_card_that_works_in_the_hosts_memory(case: Case, nvml: FakeNvml) -> None:
    """The driver tells no memory of its own; torch and the host do."""
    nvml.records(LAPTOP.replace("0.memory ", "0.memory !3 "))
    uuid = FIRST.removeprefix("GPU-")
    own = card("NVIDIA GB10", (12, 1), 120 * GIB, uuid=uuid, is_integrated=1)
    torch = torch_with(cuda=[own], built_for="sm_120", reserved=GIB)
    (found,) = case.probe(CUDA, torch=torch, available=50 * GIB)
    assert (found.unified, found.memory_total, found.memory_free) == (True, 120 * GIB, 51 * GIB)
    assert "memory_total" not in {entry.fact for entry in found.missing}


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        ("init !18", "NVIDIA's driver was updated and works again after the next restart"),
        ("init !9", "NVIDIA's driver is installed, but not running"),
        ("init !4", "this user has no permission to query NVIDIA's driver"),
        ("count 0", "NVIDIA's driver does not run it"),
        (LAPTOP + "0.calls 5", "NVIDIA's driver has lost it: GPU is lost"),
    ],
)
def test_a_library_that_fails(case: Case, nvml: FakeNvml, recording: str, words: str) -> None:
    """The bus still shows the card, so it is listed, with the reason."""
    nvml.records(recording)
    (found,) = case.probe(CUDA, GEFORCE, torch=torch_with())
    assert (found.bus, found.unusable) == ("0000:01:00.0", words)


@pytest.mark.usefixtures("no_nvml")
def test_no_driver_of_nvidia(case: Case, tmp_path: Path) -> None:
    table = {"usr/share/misc/pci.ids": NAMES}
    (found,) = case.probe(CUDA, GEFORCE, table, torch=torch_with())
    assert found.name == "GeForce RTX 3060 Lite Hash Rate"
    assert found.unusable == "NVIDIA's driver is not installed"
    driver = tmp_path / FOLDER / "0000:01:00.0" / "driver"
    driver.symlink_to("../../drivers/nouveau")
    assert "nouveau" in case.probe(CUDA, torch=torch_with())[0].unusable
    driver.unlink()
    driver.symlink_to("../../drivers/vfio-pci")
    reserved = "it is reserved for a virtual machine"
    assert case.probe(CUDA, torch=torch_with())[0].unusable == reserved


@pytest.mark.usefixtures("no_nvml")
def test_a_card_of_amd_beside_the_processors_own(case: Case) -> None:
    """Torch tells no addresses here; the sizes of their memories tell them apart."""
    own = card("AMD Radeon Graphics", (10, 3), 15 * GIB, gcnArchName="gfx1036", is_integrated=1)
    big = card("AMD Radeon RX 7900 XTX", (11, 0), 24 * GIB, gcnArchName="gfx1100")
    torch = torch_with(cuda=[own, big], hip="7.1", built_for="gfx1100", reserved=GIB)
    first, second = case.probe(ROCM, RX_7900, RYZEN, torch=torch)
    assert (first.device, first.name) == ("cuda:1", "AMD Radeon RX 7900 XTX")
    assert (first.memory_total, first.memory_free) == (24 * GIB, 19 * GIB)
    assert first.link == PcieLink(4, 16, 4, 16)
    assert (second.device, second.unified) == ("cuda:0", True)
    assert (second.memory_total, second.memory_free) == (15 * GIB, 9 * GIB)
    assert (
        second.unusable == "the PyTorch installed here has no kernels for its architecture, gfx1036"
    )


@pytest.mark.usefixtures("no_nvml")
def test_cards_of_intel(case: Case) -> None:
    own = card("Intel Graphics", (0, 0), 14 * GIB, is_integrated_gpu=True)
    arc = card("Intel Arc B580", (0, 0), 12 * GIB, is_integrated_gpu=False)
    first, second = case.probe(XPU, INTEL_OWN, ARC, torch=torch_with(xpu=[arc, own]))
    assert (first.device, first.memory_free, first.unified) == ("xpu:1", 8 * GIB, True)
    assert (second.device, second.memory_total, second.memory_free) == (
        "xpu:0",
        12 * GIB,
        5 * GIB,
    )


@pytest.mark.usefixtures("no_nvml")
def test_a_torch_for_another_maker(case: Case) -> None:
    (found,) = case.probe(CUDA, RX_7900, {"usr/share/hwdata/pci.ids": NAMES})
    assert found.unusable == "the PyTorch installed here is built for NVIDIA GPUs"
    assert found.name == "Radeon RX 7900 XT/7900 XTX"
    assert (found.memory_total, found.memory_free) == (24 * GIB, 18 * GIB)
    assert not case.imported


@pytest.mark.usefixtures("no_nvml")
def test_apples(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """One pool: what is recommended, and no more than the system has left."""
    monkeypatch.setattr(probe, "sysctl_text", lambda _name: "Apple M2")
    torch = torch_with(mps=11 * GIB, reserved=GIB)
    (found,) = case.probe(TorchBuild("2.13.0"), torch=torch)
    assert (found.device, found.name, found.vendor) == ("mps", "GPU of Apple M2", Vendor.APPLE)
    assert (found.unified, found.memory_total, found.memory_free) == (True, 11 * GIB, 9 * GIB)
    (found,) = case.probe(TorchBuild("2.13.0"), torch=torch, available=30 * GIB)
    assert found.memory_free == 11 * GIB


@pytest.mark.usefixtures("no_nvml")
def test_a_broken_torch(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_name: str) -> ModuleType:
        raise OSError("libcudart.so.13: cannot open shared object file\nmore")

    case.probe(CPU_ONLY, ARC)
    monkeypatch.setattr(probe, "torch_build", lambda: XPU)
    monkeypatch.setattr(probe.importlib, "import_module", broken)
    (found,) = probe.probe_accelerators()
    assert (
        found.unusable == "PyTorch cannot use it: libcudart.so.13: cannot open shared object file"
    )


def test_what_the_registry_of_windows_tells() -> None:
    radeon = described(r"PCI\VEN_1002&DEV_744C", "Radeon RX 7900 XTX", 24 * GIB)
    assert radeon == Accelerator("", "Radeon RX 7900 XTX", Vendor.AMD, memory_total=24 * GIB)
    arc = described(r"pci\ven_8086&dev_e20b", "", b"\0\0")
    assert arc == Accelerator("", "Intel GPU", Vendor.INTEL)
    assert described(r"PCI\VEN_1414&DEV_008E", "Basic Render Driver", None) is None
    assert described("ROOT\\BasicDisplay", "", None) is None
