"""Every accelerator that the system knows, matched with those that torch can use.

NVIDIA's library, the PCI bus (or Windows) and torch each know some facts, and number cards in
orders of their own; CUDA_VISIBLE_DEVICES changes torch's. So cards are matched by UUID, then by
address, and only where neither is told by their order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.devices.accelerators.nvml import NvmlFacts
from engine.devices.accelerators.pci_gpus import PciGpu
from engine.devices.accelerators.torch_build import TorchBuild
from engine.devices.accelerators.torch_devices import SeenByTorch, TorchSight, plain_uuid
from engine.language import tr
from engine.machine.facts import Accelerator, Missing, Vendor

_HIDING: Mapping[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    Vendor.AMD: ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    Vendor.INTEL: ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
"""Variables with which users keep devices from a program."""
_MAKERS: Mapping[Vendor, str] = {
    Vendor.NVIDIA: "NVIDIA",
    Vendor.AMD: "AMD",
    Vendor.INTEL: "Intel",
    Vendor.APPLE: "Apple",
}


@dataclass(frozen=True, slots=True)
class Seen:
    """Raw facts about accelerators from each source, before they are combined.

    Attributes:
        nvidia: cards of NVIDIA's library, in its order; bytes.
        nvidia_trouble: why that library told nothing although there may be cards.
        driver: NVIDIA's; `cuda`: the newest CUDA that it can serve.
        gpus: what the system lists, NVIDIA's included.
        build: of torch; None: it is not installed.
        torch: what torch lists; None: it was not asked.
        host_available: bytes of the host's memory, for accelerators that work in it.
        environment: variables that hide devices.
    """

    nvidia: tuple[NvmlFacts, ...] = ()
    nvidia_trouble: str = ""
    driver: str = ""
    cuda: tuple[int, int] | None = None
    gpus: tuple[PciGpu, ...] = ()
    build: TorchBuild | None = None
    torch: TorchSight | None = None
    host_available: int | None = None
    apple: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)


def all_hidden(seen: Seen, vendor: Vendor) -> bool:
    """Tell whether variables hide every device of this vendor, so that torch need not look."""
    return any(seen.environment.get(variable) in {"", "-1"} for variable in _HIDING.get(vendor, ()))


def combine(seen: Seen) -> tuple[Accelerator, ...]:
    """Return all accelerators, each once: NVIDIA's first, then in the order of the bus."""
    devices = list(seen.torch.devices) if seen.torch else []
    found: list[Accelerator] = []
    matched: list[SeenByTorch] = []
    for facts in seen.nvidia:
        device = _by_identity(devices, facts.uuid, facts.bus)
        matched += [device] if device else []
        found.append(_of_nvidia(seen, facts, device))
    known = {accelerator.bus for accelerator in found}
    for gpu in seen.gpus:
        if gpu.bus in known or (gpu.vendor is Vendor.NVIDIA and seen.nvidia and not gpu.bus):
            continue
        left = [device for device in devices if device not in matched]
        device = _by_identity(left, "", gpu.bus) or _by_order(left, gpu)
        matched += [device] if device else []
        found.append(_of_bus(seen, gpu, device))
    alone = [_of_torch(seen, device) for device in devices if device not in matched]
    return (*found, *alone)


def _by_identity(devices: list[SeenByTorch], uuid: str, bus: str) -> SeenByTorch | None:
    number = plain_uuid(uuid)
    for device in devices:
        if number and device.uuid == number:
            return device
    # A part of a divided card has its card's address, so a UUID that differs decides.
    for device in devices:
        if bus and device.bus == bus and not (number and device.uuid):
            return device
    return None


def _by_order(devices: list[SeenByTorch], gpu: PciGpu) -> SeenByTorch | None:
    """Return the first device without an address that could be this GPU."""
    own = [one for one in devices if one.vendor is gpu.vendor and not one.bus]
    if not gpu.total:
        return next((one for one in own if one.integrated == gpu.integrated), None)
    alike = [one for one in own if one.total and abs(one.total - gpu.total) < 0.1 * gpu.total]
    # AMD's in the processor have little of their own, whatever torch lets them use.
    return next(iter(alike), None) or next((one for one in own if one.integrated), None)


def _of_nvidia(seen: Seen, facts: NvmlFacts, device: SeenByTorch | None) -> Accelerator:
    """Return an NVIDIA GPU as its driver describes it; shared memory's size comes from torch."""
    capability = "{}.{}".format(*facts.capability) if facts.capability else ""
    ours = facts.ours if facts.ours is not None else device.ours if device else 0
    total = facts.total
    free = None if facts.free is None else min(facts.free + ours, total or facts.free + ours)
    shared = bool(device and device.integrated)
    if device is not None and total is None:
        total = device.total
        free = _of_pool(seen, device) if shared else None
    missing = facts.missing
    if free is not None:
        missing = tuple(entry for entry in missing if entry.fact != "memory_total")
    return Accelerator(
        device=device.device if device else "",
        name=facts.name or (device.name if device else "NVIDIA"),
        vendor=Vendor.NVIDIA,
        memory_total=total,
        memory_free=free,
        unified=shared,
        unusable=device.unusable if device else why_not(seen, Vendor.NVIDIA),
        identity=facts.uuid or facts.bus,
        driver=seen.driver,
        bus=facts.bus,
        architecture=capability,
        link=facts.link,
        missing=missing,
    )


def _of_bus(seen: Seen, gpu: PciGpu, device: SeenByTorch | None) -> Accelerator:
    """Return a GPU that the system lists, with torch's facts where torch lists it too."""
    plain = Accelerator(
        device="",
        name=gpu.name or _unnamed(gpu.vendor),
        vendor=gpu.vendor,
        memory_total=gpu.total,
        memory_free=_rest(gpu.total, gpu.used, 0),
        unified=gpu.integrated,
        identity=gpu.bus,
        driver=gpu.driver,
        bus=gpu.bus,
        link=gpu.link,
    )
    if device is None:
        return replace(plain, unusable=_why_not_driven(seen, gpu), missing=_gaps(plain))
    shared = device.integrated or gpu.integrated
    total = device.total if shared or gpu.total is None else gpu.total
    if shared:
        free = _of_pool(seen, device)
    else:
        free = _rest(gpu.total, gpu.used, device.ours)
        if free is None and device.free is not None:
            free = device.free + device.ours
    described = replace(
        plain,
        device=device.device,
        name=device.name or plain.name,
        memory_total=total,
        memory_free=free,
        unified=shared,
        unusable=device.unusable,
        driver=device.driver or plain.driver,
        architecture=device.architecture,
    )
    return replace(described, missing=_gaps(described))


def _of_torch(seen: Seen, device: SeenByTorch) -> Accelerator:
    """Return a device that torch alone knows: Apple's, and all where the system lists nothing."""
    free = device.free + device.ours if device.free is not None else None
    name = device.name
    if device.vendor is Vendor.APPLE:
        name = (
            tr("GPU of {processor}").format(processor=seen.apple) if seen.apple else tr("Apple GPU")
        )
    described = Accelerator(
        device=device.device,
        name=name or _unnamed(device.vendor),
        vendor=device.vendor,
        memory_total=device.total,
        memory_free=_of_pool(seen, device) if device.integrated else free,
        unified=device.integrated,
        unusable=device.unusable,
        identity=device.uuid or device.bus or f"{device.device} {name}",
        driver=device.driver or (seen.driver if device.vendor is Vendor.NVIDIA else ""),
        bus=device.bus,
        architecture=device.architecture,
    )
    return replace(described, missing=_gaps(described))


def _of_pool(seen: Seen, device: SeenByTorch) -> int | None:
    """Return the bytes of the host's memory that an accelerator without its own could hold."""
    if seen.host_available is None:
        return None
    available = seen.host_available + device.ours
    return available if device.total is None else min(available, device.total)


def _rest(total: int | None, used: int | None, ours: int) -> int | None:
    return None if total is None or used is None else min(max(total - used + ours, 0), total)


def _gaps(found: Accelerator) -> tuple[Missing, ...]:
    reasons: list[Missing] = []
    if found.memory_total is None:
        reasons.append(Missing("memory_total", tr("its driver does not tell")))
    elif found.memory_free is None:
        reasons.append(Missing("memory_free", tr("its driver does not tell what others hold")))
    return tuple(reasons)


def _unnamed(vendor: Vendor) -> str:
    return f"{_MAKERS.get(vendor, '')} GPU".strip()


def _why_not_driven(seen: Seen, gpu: PciGpu) -> str:
    """Explain why torch does not list a card that is on the bus."""
    if gpu.driver in {"vfio-pci", "pci-stub"}:
        return tr("it is set aside for a virtual machine")
    if gpu.vendor is Vendor.NVIDIA and gpu.bus:
        if gpu.driver == "nouveau":
            return tr("it runs with the driver nouveau; torch needs NVIDIA's own")
        return seen.nvidia_trouble or tr("NVIDIA's driver does not run it")
    return why_not(seen, gpu.vendor)


def why_not(seen: Seen, vendor: Vendor) -> str:
    """Explain why torch lists no device that the driver runs well, in plain words."""
    build = seen.build
    if build is None:
        return tr("PyTorch is not installed")
    if build.vendor is None:
        return tr("the PyTorch installed here computes on CPUs only")
    if build.vendor is not vendor:
        return tr("the PyTorch installed here is built for accelerators of {vendor}").format(
            vendor=_MAKERS[build.vendor]
        )
    for variable in _HIDING.get(vendor, ()):
        if variable in seen.environment:
            return tr("{variable}={value} hides it").format(
                variable=variable, value=seen.environment[variable]
            )
    needs = build.cuda.partition(".")[0]
    if vendor is Vendor.NVIDIA and seen.cuda and needs.isdecimal() and seen.cuda[0] < int(needs):
        return tr(
            "its driver {driver} is older than the PyTorch installed here needs: it serves CUDA "
            "{has}, PyTorch is built for {needs}"
        ).format(driver=seen.driver, has="{}.{}".format(*seen.cuda), needs=build.cuda)
    if seen.torch is not None and seen.torch.complaint:
        return tr("PyTorch cannot use it: {words}").format(words=seen.torch.complaint)
    return tr("PyTorch does not find it")
