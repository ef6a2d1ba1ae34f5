"""Rough speeds of unmeasured machines: by cores, instruction sets, kind of memory.

Classes, not names of products: what a device of that size usually has. Calibration replaces them.
"""

from __future__ import annotations

from engine.backend.simulated.spec import SimulatedSpec, simulated_speeds
from engine.machine.facts import CPU, Accelerator, Host, Machine, Vendor
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed, Speeds

_GIGA = 1e9
_ROWS = (1, 2, 4, 8, 16)

_CORE_BYTES_PER_S = {
    "amx_int8": 13 * _GIGA,
    "avx512_vnni": 12 * _GIGA,
    "avx_vnni": 12 * _GIGA,
    "avx2": 6 * _GIGA,
    "asimddp": 6 * _GIGA,
    "asimd": 2 * _GIGA,
}
"""Weights that a core gets through with one row, by the best instruction set that it has."""
_PORTABLE_BYTES_PER_S = 0.5 * _GIGA
_ROWS_COST = {"amx_int8": 0.06, "avx512_vnni": 0.07, "avx_vnni": 0.07}
"""Cost of a further row in a product with 4-bit weights, as a share of the first row's."""
_USUAL_ROWS_COST, _PORTABLE_ROWS_COST = 0.12, 0.9

_FROM_CACHES = 2
"""Speed of a core on weights in its caches, relative to weights in memory."""
_ROWS_FROM_CACHES = 4
"""Factor on the cost of a further row there: multiplying takes the time, not reading."""
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
    best = next((name for name in _CORE_BYTES_PER_S if name in host.instruction_sets), "")
    memory = _DESKTOP_BYTES_PER_S if cores < _SERVER_CORES else _SERVER_BYTES_PER_S
    if unified is not None:
        memory = _bandwidth(unified) * _OF_UNIFIED
    per_core = _CORE_BYTES_PER_S.get(best, _PORTABLE_BYTES_PER_S)
    usual = _USUAL_ROWS_COST if best else _PORTABLE_ROWS_COST
    reading, computing = min(memory, cores * per_core * 1.5), cores * per_core
    added = _ROWS_COST.get(best, usual)
    four = _product(min(reading, computing), added)
    eight = _product(min(reading, computing * 1.5), added * 0.6)
    floats = _product(min(reading, computing), 0.5)
    return DeviceSpeeds(
        CPU,
        read_bytes_per_s=reading,
        products={"Q4_0": four, "Q4_K": four, "Q6_K": four, "Q8_0": eight, "BF16": floats},
        forward_s=70e-6,
        block_s=25e-6,
        row_s=5e-6,
        attention=_product(reading / 2, 0.05),
        small=_few_cores(min(cores, _FEW_CORES), per_core, min(added * _ROWS_FROM_CACHES, 1.0)),
    )


def _few_cores(cores: int, per_core: float, added: float) -> DeviceSpeeds:
    """Return speeds of few cores with weights that fit into their caches."""
    cached = cores * per_core * _FROM_CACHES
    product = _product(cached, added)
    return DeviceSpeeds(
        CPU,
        read_bytes_per_s=cached,
        products={"Q4_0": product, "Q8_0": product, "BF16": _product(cached / 2, 0.5)},
        forward_s=40e-6,
        block_s=3e-6,
        row_s=2e-6,
        attention=_product(cached, 0.05),
        threads=cores,
    )


def _product(bytes_per_s: float, added: float) -> ProductSpeed:
    return ProductSpeed(_ROWS, tuple(bytes_per_s / (1 + added * (rows - 1)) for rows in _ROWS))


def _accelerator(found: Accelerator) -> DeviceSpeeds:
    bandwidth = _bandwidth(found)
    product = _product(bandwidth * _EFFICIENCY.get(found.vendor, _USUAL_EFFICIENCY), 0.02)
    return DeviceSpeeds(
        found.device,
        read_bytes_per_s=bandwidth,
        products={"Q4_0": product, "Q8_0": product, "BF16": product},
        forward_s=200e-6,
        block_s=30e-6,
        row_s=1e-6,
        attention=_product(bandwidth / 3, 0.02),
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
