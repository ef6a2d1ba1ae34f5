"""Which accelerators the installed torch is built for, and those that it lists.

The former is told without importing it, which takes a second or two and a few hundred megabytes: it
waits until there is an accelerator that this build could use. Nothing here opens a context on one.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from engine.language import tr
from engine.machine.facts import Accelerator, Vendor
from engine.machine.kernels import reason_against_kernels


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """Version facts of torch/version.py; "" for each of CUDA, ROCm and oneAPI that it lacks."""

    version: str
    cuda: str = ""
    hip: str = ""
    xpu: str = ""

    @property
    def vendor(self) -> Vendor | None:
        """Vendor of the accelerators that this torch computes on; None: CPU only.

        torch for macOS names no vendor: every build of it computes on Apple's.
        """
        if self.hip:
            return Vendor.AMD
        if self.cuda:
            return Vendor.NVIDIA
        return Vendor.INTEL if self.xpu else None


def torch_build() -> TorchBuild | None:
    """The installed torch; None without one."""
    try:
        found = importlib.util.find_spec("torch")
    except (ImportError, ValueError):
        return None
    if found is None or not found.origin:
        return None
    try:
        return read_build(Path(found.origin).with_name("version.py").read_text("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


def read_build(source: str) -> TorchBuild | None:
    """Parse the source of a torch/version.py without executing it; None if it is none."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    told: dict[str, str] = {}
    for line in body:
        if isinstance(line, ast.Assign):
            names: list[ast.expr] = line.targets
        elif isinstance(line, ast.AnnAssign):
            names = [line.target]
        else:
            continue
        if isinstance(line.value, ast.Constant) and isinstance(line.value.value, str):
            told |= {name.id: line.value.value for name in names if isinstance(name, ast.Name)}
    version = told.get("__version__", "")
    # Older builds for Intel's say so in the version alone.
    xpu = told.get("xpu", "") or ("+xpu" in version and version) or ""
    return TorchBuild(version, told.get("cuda", ""), told.get("hip", ""), xpu) if version else None


@dataclass(frozen=True, slots=True)
class TorchSight:
    """Devices that torch lists, and its message where it found trouble.

    Attributes:
        devices: as far as torch tells: their identity is a UUID as `plain_uuid` returns it, or
            empty; their free memory is without what torch holds, and known of Intel's alone.
        held: bytes that torch's allocator holds, by device.
    """

    devices: tuple[Accelerator, ...] = ()
    complaint: str = ""
    held: Mapping[str, int] = field(default_factory=dict)


def look(torch: ModuleType) -> TorchSight:
    """Ask torch, imported by the caller; some 100 ms the first time (drivers start)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        devices: list[Accelerator] = []
        complaint = ""
        for find in (_cuda, _xpu, _mps):
            try:
                devices += find(torch)
            # Drivers fail in many ways, and none of them may keep the rest from running.
            except Exception as error:  # noqa: BLE001
                complaint = complaint or _first_line(error)
    for warning in caught:
        complaint = complaint or _first_line(warning.message)
    held = {found.device: held_by_torch(torch, found.device) or 0 for found in devices}
    return TorchSight(tuple(devices), complaint, held)


def held_by_torch(torch: ModuleType, device: str) -> int | None:
    """Return the bytes that torch's allocator holds on a device; None where it does not tell."""
    kind, _, index = device.partition(":")
    try:
        if kind == "mps":
            return int(torch.mps.driver_allocated_memory())
        room = torch.xpu if kind == "xpu" else torch.cuda
        return int(room.memory_reserved(int(index or 0))) if room.is_initialized() else 0
    except Exception:  # noqa: BLE001 - a device that went away raises whatever its driver likes
        return None


def _cuda(torch: ModuleType) -> Iterable[Accelerator]:
    """Return NVIDIA's devices, and AMD's, which torch lists under the same names."""
    if not torch.cuda.is_available():
        return
    amd = bool(torch.version.hip)
    built_for = torch.cuda.get_arch_list()
    for index in range(torch.cuda.device_count()):
        facts = torch.cuda.get_device_properties(index)
        if amd:
            architecture = str(getattr(facts, "gcnArchName", "")).partition(":")[0]
            unusable = _not_built_for_amd(architecture, built_for)
        else:
            architecture = f"{facts.major}.{facts.minor}"
            unusable = not_built_for((facts.major, facts.minor), built_for)
        vendor = Vendor.AMD if amd else Vendor.NVIDIA
        yield Accelerator(
            device=f"cuda:{index}",
            name=facts.name,
            vendor=vendor,
            identity=plain_uuid(str(getattr(facts, "uuid", ""))),
            bus=_bus(facts),
            memory_total=int(facts.total_memory),
            architecture=architecture,
            unified=bool(getattr(facts, "is_integrated", False)),
            unusable=unusable,
            without_kernels=reason_against_kernels(vendor, architecture),
        )


def _xpu(torch: ModuleType) -> Iterable[Accelerator]:
    """Return Intel's devices."""
    if not hasattr(torch, "xpu") or not torch.xpu.is_available():
        return
    for index in range(torch.xpu.device_count()):
        facts = torch.xpu.get_device_properties(index)
        yield Accelerator(
            device=f"xpu:{index}",
            name=facts.name,
            vendor=Vendor.INTEL,
            identity=plain_uuid(str(getattr(facts, "uuid", ""))),
            memory_total=int(facts.total_memory),
            unified=bool(getattr(facts, "is_integrated_gpu", False)),
            memory_free=_free_on_xpu(torch, index),
            driver=str(getattr(facts, "driver_version", "")),
            without_kernels=reason_against_kernels(Vendor.INTEL, ""),
        )


def _free_on_xpu(torch: ModuleType, index: int) -> int | None:
    """Return the free bytes; None where Intel's driver does not tell."""
    try:
        return int(torch.xpu.mem_get_info(index)[0])
    except (AttributeError, RuntimeError):
        return None


def _mps(torch: ModuleType) -> Iterable[Accelerator]:
    """Return Apple's device: one memory for processor and graphics."""
    if torch.backends.mps.is_available():
        yield Accelerator(
            device="mps",
            name="",
            vendor=Vendor.APPLE,
            memory_total=int(torch.mps.recommended_max_memory()),
            unified=True,
            without_kernels=reason_against_kernels(Vendor.APPLE, ""),
        )


def not_built_for(capability: tuple[int, int], built_for: list[str]) -> str:
    """Explain why kernels for these architectures ("sm_86") do not run; "" if some do.

    Machine code ("sm") runs on later cards of the same generation, code for the driver to compile
    ("compute") on all later ones.
    """
    machine: list[tuple[int, int]] = []
    portable: list[tuple[int, int]] = []
    for entry in built_for:
        known = re.fullmatch(r"(sm|compute)_(\d+)(\d)[af]?", entry)
        if known:
            place = machine if known[1] == "sm" else portable
            place.append((int(known[2]), int(known[3])))
    if not machine and not portable:
        return ""  # torch does not tell: let it try
    runs = any(major == capability[0] and minor <= capability[1] for major, minor in machine)
    if runs or any(version <= capability for version in portable):
        return ""
    own, first = "{}.{}".format(*capability), "{}.{}".format(*min(machine + portable))
    if capability < min(machine + portable):
        return tr(
            "its compute capability {own} is older than the PyTorch installed here supports "
            "({first} and later)"
        ).format(own=own, first=first)
    return tr(
        "its compute capability {own} is newer than the PyTorch installed here supports"
    ).format(own=own)


def plain_uuid(uuid: str) -> str:
    """Return a UUID without the "GPU-" or "MIG-" of NVML, as torch writes it."""
    found = re.search(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uuid.lower())
    return found[0] if found and found[0].strip("0-") else ""


def _not_built_for_amd(architecture: str, built_for: list[str]) -> str:
    known = {entry.partition(":")[0] for entry in built_for}
    generic = any("generic" in entry for entry in known)
    if not architecture or not known or generic or architecture in known:
        return ""
    return tr("the PyTorch installed here has no kernels for its architecture, {own}").format(
        own=architecture
    )


def _bus(facts: Any) -> str:  # noqa: ANN401
    """Return the PCI address, which only newer versions of torch tell; else ""."""
    parts = [getattr(facts, f"pci_{name}_id", None) for name in ("domain", "bus", "device")]
    if any(not isinstance(part, int) for part in parts):
        return ""
    domain, bus, device = parts
    return f"{domain:04x}:{bus:02x}:{device:02x}.0"


def _first_line(words: object) -> str:
    lines = str(words).strip().splitlines()
    return lines[0] if lines else type(words).__name__
