"""Every accelerator that the system knows, matched with those that torch can use.

NVIDIA's library, the PCI bus (or Windows) and torch each know some facts, and number cards in
orders of their own; CUDA_VISIBLE_DEVICES changes torch's. So cards are matched by UUID, then by
address, and only where neither is told by their order.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.devices.accelerators.system_gpus import MAKERS, unnamed
from engine.devices.accelerators.torch_devices import TorchBuild, TorchSight, plain_uuid
from engine.language import tr
from engine.machine.facts import Accelerator, Missing, Vendor

_HIDING: Mapping[Vendor, tuple[str, ...]] = {
    Vendor.NVIDIA: ("CUDA_VISIBLE_DEVICES",),
    Vendor.AMD: ("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    Vendor.INTEL: ("ZE_AFFINITY_MASK", "ONEAPI_DEVICE_SELECTOR"),
}
"""Variables with which users keep devices from a program."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Raw facts about accelerators from each source, before they are combined.

    Attributes:
        nvidia: cards of NVIDIA's library, in its order, each with the bytes that this process
            holds there; None where the driver does not tell.
        nvidia_trouble: why that library told nothing although there may be cards.
        driver: NVIDIA's; `cuda`: the newest CUDA that it can serve.
        gpus: what the system lists, NVIDIA's included.
        build: of torch; None: it is not installed.
        torch: what torch lists; None: it was not asked.
        host_available: bytes of the host's memory, for accelerators that work in it.
        environment: variables that hide devices.
    """

    nvidia: tuple[tuple[Accelerator, int | None], ...] = ()
    nvidia_trouble: str = ""
    driver: str = ""
    cuda: tuple[int, int] | None = None
    gpus: tuple[Accelerator, ...] = ()
    build: TorchBuild | None = None
    torch: TorchSight | None = None
    host_available: int | None = None
    apple: str = ""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def held(self, device: Accelerator | None) -> int:
        """Return the bytes that torch holds on one of its devices."""
        return self.torch.held.get(device.device, 0) if self.torch and device else 0


def all_hidden(seen: Seen, vendor: Vendor) -> bool:
    """Tell whether variables hide every device of this vendor, so that torch need not look."""
    return any(seen.environment.get(variable) in {"", "-1"} for variable in _HIDING.get(vendor, ()))


def combine(seen: Seen) -> tuple[Accelerator, ...]:
    """Return all accelerators, each once: NVIDIA's first, then in the order of the bus."""
    left = list(seen.torch.devices) if seen.torch else []
    found: list[Accelerator] = []
    for card, held in seen.nvidia:
        device = _by_identity(left, card)
        found.append(_of_nvidia(seen, card, held, device))
        left = [each for each in left if each is not device]
    known = {accelerator.bus for accelerator in found}
    for gpu in seen.gpus:
        if gpu.bus in known or (gpu.vendor is Vendor.NVIDIA and seen.nvidia and not gpu.bus):
            continue
        device = _by_identity(left, gpu) or _by_order(left, gpu)
        found.append(_of_bus(seen, gpu, device))
        left = [each for each in left if each is not device]
    return (*found, *(_of_torch(seen, device) for device in left))


def _by_identity(devices: list[Accelerator], gpu: Accelerator) -> Accelerator | None:
    number = plain_uuid(gpu.identity)
    for device in devices:
        if number and device.identity == number:
            return device
    # A part of a divided card has its card's address, so a UUID that differs decides.
    for device in devices:
        if gpu.bus and device.bus == gpu.bus and not (number and device.identity):
            return device
    return None


def _by_order(devices: list[Accelerator], gpu: Accelerator) -> Accelerator | None:
    """Return the first device without an address that could be this GPU."""
    own = [one for one in devices if one.vendor is gpu.vendor and not one.bus]
    size = gpu.memory_total
    if not size:
        return next((one for one in own if one.unified == gpu.unified), None)
    alike = [one for one in own if abs((one.memory_total or 0) - size) < 0.1 * size]
    # AMD's in the processor have little of their own, whatever torch lets them use.
    return next(iter(alike), None) or next((one for one in own if one.unified), None)


def _of_nvidia(
    seen: Seen, card: Accelerator, held: int | None, device: Accelerator | None
) -> Accelerator:
    """Return an NVIDIA GPU as its driver describes it; shared memory's size comes from torch."""
    free = _with_ours(card, seen.held(device) if held is None else held)
    described = replace(
        card,
        device=device.device if device else "",
        name=card.name or (device.name if device else "NVIDIA"),
        memory_free=free,
        unified=bool(device and device.unified),
        unusable=device.unusable if device else why_not(seen, Vendor.NVIDIA),
        without_kernels=device.without_kernels if device else "",
        driver=seen.driver,
    )
    if device is not None and card.memory_total is None:
        free = _of_pool(seen, device) if device.unified else None
        described = replace(described, memory_total=device.memory_total, memory_free=free)
    if free is None:
        return described
    told = tuple(entry for entry in card.missing if entry.fact != "memory_total")
    return replace(described, missing=told)


def _of_bus(seen: Seen, gpu: Accelerator, device: Accelerator | None) -> Accelerator:
    """Return a GPU that the system lists, with torch's facts where torch lists it too."""
    if device is None:
        return _with_gaps(replace(gpu, unusable=_why_not_driven(seen, gpu)))
    shared, ours, total = device.unified or gpu.unified, seen.held(device), gpu.memory_total
    free = _of_pool(seen, device) if shared else _with_ours(gpu, ours)
    if free is None and not shared and device.memory_free is not None:
        free = device.memory_free + ours
    return _with_gaps(
        replace(
            gpu,
            device=device.device,
            name=device.name or gpu.name,
            memory_total=device.memory_total if shared or total is None else total,
            memory_free=free,
            unified=shared,
            unusable=device.unusable,
            driver=device.driver or gpu.driver,
            architecture=device.architecture,
            without_kernels=device.without_kernels,
        )
    )


def _of_torch(seen: Seen, device: Accelerator) -> Accelerator:
    """Return a device that torch alone knows: Apple's, and all where the system lists nothing."""
    free = device.memory_free + seen.held(device) if device.memory_free is not None else None
    name = device.name
    if device.vendor is Vendor.APPLE:
        name = (
            tr("GPU of {processor}").format(processor=seen.apple) if seen.apple else tr("Apple GPU")
        )
    return _with_gaps(
        replace(
            device,
            name=name or unnamed(device.vendor),
            memory_free=_of_pool(seen, device) if device.unified else free,
            identity=device.identity or device.bus or f"{device.device} {name}",
            driver=device.driver or (seen.driver if device.vendor is Vendor.NVIDIA else ""),
        )
    )


def _of_pool(seen: Seen, device: Accelerator) -> int | None:
    """Return the bytes of the host's memory that an accelerator without its own could hold."""
    if seen.host_available is None:
        return None
    available = seen.host_available + seen.held(device)
    return available if device.memory_total is None else min(available, device.memory_total)


def _with_ours(found: Accelerator, ours: int) -> int | None:
    """Return what could be held of an accelerator's memory, `ours` of it held already."""
    if found.memory_total is None or found.memory_free is None:
        return None
    return min(found.memory_free + ours, found.memory_total)


def _with_gaps(found: Accelerator) -> Accelerator:
    """Return an accelerator with reasons for what is not known of its memory."""
    missing: tuple[Missing, ...] = ()
    if found.memory_total is None:
        missing = (Missing("memory_total", tr("its driver does not report it")),)
    elif found.memory_free is None:
        missing = (Missing("memory_free", tr("its driver does not report other programs' memory")),)
    return replace(found, missing=missing)


def _why_not_driven(seen: Seen, gpu: Accelerator) -> str:
    """Explain why torch does not list a card that is on the bus."""
    if gpu.driver in {"vfio-pci", "pci-stub"}:
        return tr("it is reserved for a virtual machine")
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
        return tr("the PyTorch installed here is built for {vendor} GPUs").format(
            vendor=MAKERS[build.vendor]
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
