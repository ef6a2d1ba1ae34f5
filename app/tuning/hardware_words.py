"""Texts on the hardware of this PC, device by device. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.language import later, listed, number, tr, tr_count
from engine.language.units import memory
from engine.machine.facts import CPU, Accelerator, Host, Machine, Missing, PcieLink
from engine.machine.speeds import DeviceSpeeds, Speeds

_GB = 1e9
_NAMES = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX-512",
    "avx512_vnni": "AVX-512 VNNI",
    "avx512_bf16": "AVX-512 BF16",
    "amx_int8": "AMX",
    "asimd": "NEON",
    "asimddp": "NEON dot product",
    "i8mm": "I8MM",
}
"""Instruction sets that matter to a reader; the rest comes along with them."""
_FACTS = {
    "cores": later("cores"),
    "driver": later("driver"),
    "instruction_sets": later("instruction sets"),
    "kernels": later("kernels"),
    "link": later("bus link"),
    "memory_free": later("free memory"),
    "memory_total": later("memory"),
    "name": later("name"),
}


@dataclass(frozen=True, slots=True)
class DeviceWords:
    """One device as the page tells of it.

    Attributes:
        facts: short pieces, to be shown in a row.
        speeds: measured speeds, or declared ones of a simulated device; empty without any.
        trouble: why it is not used, or slow; empty where it is neither.
        missing: facts that could not be found out, and why.
    """

    name: str
    facts: tuple[str, ...]
    speeds: str = ""
    trouble: str = ""
    missing: tuple[str, ...] = ()


def device_words(machine: Machine, speeds: Speeds | None) -> list[DeviceWords]:
    """The processor first, then every accelerator that was found."""
    host = machine.host
    measured, missing = _measured(CPU, speeds), _missing(host.missing)
    name = host.name or tr("Processor")
    first = DeviceWords(name, tuple(_host(host)), measured, missing=missing)
    return [first, *(_accelerator(found, speeds) for found in machine.accelerators)]


def _host(host: Host) -> list[str]:
    parts = [tr_count("{n} core", "{n} cores", host.cores)]
    if host.fast_cores and host.fast_cores != host.cores:
        parts.append(tr_count("{n} performance core", "{n} performance cores", host.fast_cores))
    if host.threads > host.cores:
        parts.append(tr_count("{n} thread", "{n} threads", host.threads))
    parts += [name for known, name in _NAMES.items() if known in host.instruction_sets]
    total, free = memory(host.memory_total), memory(host.memory_available)
    parts.append(tr("{total} of memory, {free} free").format(total=total, free=free))
    return parts


def _accelerator(found: Accelerator, speeds: Speeds | None) -> DeviceWords:
    parts = []
    if found.memory_total is not None:
        size = memory(found.memory_total)
        if found.unified:
            parts.append(tr("shares the computer's memory"))
        elif found.memory_free is None:
            parts.append(size)
        else:
            free = memory(found.memory_free)
            parts.append(tr("{total}, {free} free").format(total=size, free=free))
    if found.simulated:
        parts.append(tr("runs on the CPU, to show how a GPU works"))
    if found.driver:
        parts.append(tr("driver {version}").format(version=found.driver))
    if found.link is not None:
        parts += _link(found.link)
    if found.path and not found.unusable:
        parts.append(found.path)
    trouble = tr("Not used: {reason}.").format(reason=found.unusable) if found.unusable else ""
    if found.without_kernels and not trouble:
        trouble = tr("Slow here: {reason}").format(reason=found.without_kernels)
    measured = "" if found.unusable else _measured(found.device, speeds, declared=found.simulated)
    return DeviceWords(found.name, tuple(parts), measured, trouble, _missing(found.missing))


def _missing(gaps: Sequence[Missing]) -> tuple[str, ...]:
    said = tr("{fact}: {reason}")
    return tuple(
        said.format(fact=tr(_FACTS.get(gap.fact, gap.fact)), reason=gap.reason) for gap in gaps
    )


def _link(link: PcieLink) -> list[str]:
    """Return the link at its full speed: idle GPUs slow it down."""
    generation, width = link.max_generation or link.generation, link.max_width or link.width
    if generation is None or width is None:
        return []
    return [tr("PCIe {generation}.0 x{width}").format(generation=generation, width=width)]


def _measured(device: str, speeds: Speeds | None, *, declared: bool = False) -> str:
    known = speeds.devices.get(device) if speeds is not None else None
    if speeds is None or known is None:
        return ""
    said = [tr("reads {speed} GB/s").format(speed=_rate(known.read_bytes_per_s))]
    if (product := _product(known)) is not None:
        said.append(tr("multiplies 4-bit weights at {speed} GB/s").format(speed=_rate(product)))
    if (link := speeds.links.get(device)) is not None:
        said.append(tr("receives copies at {speed} GB/s").format(speed=_rate(link.to_bytes_per_s)))
    words = tr("Declared: {speeds}.") if declared else tr("Measured: {speeds}.")
    return words.format(speeds=listed(said))


def _product(known: DeviceSpeeds) -> float | None:
    """Bytes of 4-bit weights a second, one row at a time."""
    return known.product("Q4_0").bytes_per_s[0] if known.products else None


def _rate(per_second: float) -> str:
    gigabytes = per_second / _GB
    return number(gigabytes, ".1f" if gigabytes < 9.95 else ",.0f")
