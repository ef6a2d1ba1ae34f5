"""Rough speeds of unmeasured machines: by cores, instruction sets, kind of memory.

Classes, not names of products: what a device of that size usually has. Calibration replaces them.
"""

from __future__ import annotations

from math import inf

from engine.backend.simulated.spec import SimulatedSpec, simulated_speeds
from engine.machine.facts import CPU, Accelerator, Host, Machine, Vendor
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

_GIGA = 1e9
_ROWS = tuple(range(1, 17))

_CORES = {
    "amx_int8": (13 * _GIGA, 140 * _GIGA),
    "avx512_vnni": (12 * _GIGA, 96 * _GIGA),
    "avx_vnni": (12 * _GIGA, 90 * _GIGA),
    "avx2": (9 * _GIGA, 45 * _GIGA),
    "asimddp": (6 * _GIGA, 33 * _GIGA),
    "asimd": (2 * _GIGA, 17 * _GIGA),
}
"""What a core reads from memory per second, and what it multiplies: bytes of 4-bit weights times
rows; by the best instruction set that it has."""
_PORTABLE_CORE = 2 * _GIGA, 2 * _GIGA
_OPENING = 0.45
"""Rows that could be multiplied in the time in which weights are got ready for all rows."""
_FURTHER_ROW = 0.02
"""Cost of a further row where reading takes the time, as a share of the first row's."""
_EXPOSED = 0.25
"""Share of the shorter one, reading or multiplying, that the longer one does not hide."""
_EIGHT_BITS = 544 / 288
"""Bytes of 8-bit weights beside as many 4-bit ones, which take as long to multiply."""
_ATTENDED = 0.7
"""Bytes of keys and values times queries that are got through, beside weights times rows."""

_FROM_CACHES = 2
"""Speed of a core that reads from its caches, relative to memory."""
_FEW_CORES = 2
"""Most cores that compute with weights in their caches."""

_DESKTOP_BYTES_PER_S, _SERVER_BYTES_PER_S = 40 * _GIGA, 150 * _GIGA
_SERVER_CORES = 24
_OF_UNIFIED = 0.5
"""Share of a unified memory's bandwidth that the processor reaches."""

_GIB = 2**30
_UNIFIED_CLASSES = ((16, 80.0), (24, 130.0), (48, 250.0), (96, 350.0), (1024, 600.0))
_CLASSES = ((3, 60.0), (5, 110.0), (7, 220.0), (9, 350.0), (13, 350.0), (17, 450.0), (25, 800.0),
            (50, 800.0), (1024, 2500.0))  # fmt: skip
"""Up to so many GiB: GB/s that cards with such memory usually have."""
_EFFICIENCY = {Vendor.NVIDIA: 0.6, Vendor.AMD: 0.5, Vendor.APPLE: 0.6, Vendor.INTEL: 0.35}
_USUAL_EFFICIENCY = 0.3


def assumed_speeds(machine: Machine) -> Speeds:
    """Return the speeds to plan with until they are measured."""
    unified = next((found for found in machine.usable if found.unified), None)
    devices, links = {CPU: _processor(machine.host, unified)}, dict[str, LinkSpeed]()
    for found in machine.usable:
        if found.simulated:  # it keeps to the speeds that it declares
            speeds = simulated_speeds(SimulatedSpec.of(found.memory_total or 0))
        else:
            speeds = _accelerator(found), _link(found)
        devices[found.device], links[found.device] = speeds
    return Speeds(devices, links, measured=False)


def _processor(host: Host, unified: Accelerator | None) -> DeviceSpeeds:
    cores = host.fast_cores or host.cores
    best = next((_CORES[name] for name in _CORES if name in host.instruction_sets), _PORTABLE_CORE)
    memory = _DESKTOP_BYTES_PER_S if cores < _SERVER_CORES else _SERVER_BYTES_PER_S
    if unified is not None:
        memory = _bandwidth(unified) * _OF_UNIFIED
    reads, rate = best
    reading = min(memory, cores * reads)
    four = _product(reading, cores * rate)
    eight = _product(reading, cores * rate * _EIGHT_BITS)
    return DeviceSpeeds(
        CPU,
        read_bytes_per_s=reading,
        products={"Q4_0": four, "Q4_K": four, "Q6_K": four, "Q8_0": eight, "BF16": four},
        forward_s=70e-6,
        block_s=25e-6,
        row_s=5e-6,
        attention=_product(reading, cores * rate * _ATTENDED),
        small=_few_cores(min(cores, _FEW_CORES), *best),
    )


def _few_cores(cores: int, reads: float, rate: float) -> DeviceSpeeds:
    """Return speeds of few cores with weights that fit into their caches."""
    cached = cores * reads * _FROM_CACHES
    four = _product(cached, cores * rate)
    return DeviceSpeeds(
        CPU,
        read_bytes_per_s=cached,
        products={"Q4_0": four, "Q8_0": _product(cached, cores * rate * _EIGHT_BITS), "BF16": four},
        forward_s=40e-6,
        block_s=3e-6,
        row_s=2e-6,
        attention=_product(cached, cores * rate * _ATTENDED),
        threads=cores,
    )


def _product(reads: float, multiplies: float = inf) -> ProductSpeed:
    """Return the speed of products, which read weights while they multiply others.

    Seconds are max(reading, multiplying) and a share of the shorter one: README's formula.
    """
    seconds = []
    for rows in _ROWS:
        both = (1 + _FURTHER_ROW * (rows - 1)) / reads, (rows + _OPENING) / multiplies
        seconds.append(max(both) + _EXPOSED * min(both))
    return ProductSpeed(_ROWS, tuple(1 / each for each in seconds))


def _accelerator(found: Accelerator) -> DeviceSpeeds:
    bandwidth = _bandwidth(found)
    product = _product(bandwidth * _EFFICIENCY.get(found.vendor, _USUAL_EFFICIENCY))
    return DeviceSpeeds(
        found.device,
        read_bytes_per_s=bandwidth,
        products={"Q4_0": product, "Q8_0": product, "BF16": product},
        forward_s=200e-6,
        block_s=30e-6,
        row_s=1e-6,
        attention=_product(bandwidth / 3),
    )


def _bandwidth(found: Accelerator) -> float:
    """Return the bytes per second of an accelerator's memory, judged by its size."""
    classes = _UNIFIED_CLASSES if found.unified else _CLASSES
    total = (found.memory_total or 0) / _GIB
    return next((speed for most, speed in classes if total <= most), classes[-1][1]) * _GIGA


def _link(found: Accelerator) -> LinkSpeed:
    if found.unified:
        return LinkSpeed(found.device, 20 * _GIGA, 20 * _GIGA, 10e-6)
    return LinkSpeed(found.device, 10 * _GIGA, 10 * _GIGA, 25e-6)
