"""The declared properties of a simulated accelerator, and the facts that planning uses."""

from __future__ import annotations

from dataclasses import dataclass

from engine.language import tr
from engine.machine.facts import Accelerator
from engine.machine.speeds import DeviceSpeeds, LinkSpeed, ProductSpeed
from engine.model.gguf.header import KIND_OF_NAME

DEVICE = "simulated:0"
"""Its name in plans."""

_ANY = 1 << 20
"""More rows than a forward has: up to so many the speed stays."""
_KINDS = (
    *("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K"),
    *("Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"),
)


@dataclass(frozen=True, slots=True)
class SimulatedSpec:
    """Declared, never measured. The defaults are what one core of a common CPU keeps up with.

    Attributes:
        memory: bytes of video memory.
        read_bytes_per_s: of that memory.
        products_per_s: multiply-adds.
        link_bytes_per_s: between host and device, either way.
        latency_s: of a call, and of a copy.
        runtime_bytes: what its software takes before anything is loaded.
    """

    memory: int
    read_bytes_per_s: float = 10e9
    products_per_s: float = 80e9
    link_bytes_per_s: float = 4e9
    latency_s: float = 30e-6
    runtime_bytes: int = 0

    @classmethod
    def of(cls, memory: int) -> SimulatedSpec:
        """The default spec with so much memory."""
        return cls(memory, runtime_bytes=simulated_accelerator(memory).declared_software or 0)


def simulated_name() -> str:
    """Name to show to people."""
    return tr("Simulated GPU")


def simulated_accelerator(memory: int) -> Accelerator:
    """The facts of one with so much memory, nothing of it taken."""
    return Accelerator(
        device=DEVICE,
        name=simulated_name(),
        memory_total=memory,
        memory_free=memory,
        simulated=True,
        identity=DEVICE,
    )


def simulated_speeds(spec: SimulatedSpec) -> tuple[DeviceSpeeds, LinkSpeed]:
    """Return the declared speeds as calibration would measure them; calls take as long by these."""
    return (
        DeviceSpeeds(
            device=DEVICE,
            read_bytes_per_s=spec.read_bytes_per_s,
            products={kind: _product(spec, kind) for kind in _KINDS},
            forward_s=spec.latency_s,
            attention=ProductSpeed((1, _ANY), (spec.read_bytes_per_s,) * 2),
        ),
        LinkSpeed(DEVICE, spec.link_bytes_per_s, spec.link_bytes_per_s, spec.latency_s),
    )


def _product(spec: SimulatedSpec, kind: str) -> ProductSpeed:
    """The later of reading and multiplying: as fast as memory up to some rows, then ever slower."""
    block = KIND_OF_NAME[kind]
    bytes_per_s = spec.products_per_s * block.nbytes / block.numbers  # with one row
    free = int(min(bytes_per_s / spec.read_bytes_per_s, _ANY))
    first = () if free < 1 else (1,) if free == 1 else (1, free)
    return ProductSpeed(
        (*first, free + 1),
        (*(spec.read_bytes_per_s for _ in first), bytes_per_s / (free + 1)),
    )
