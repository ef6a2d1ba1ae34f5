"""What a machine is: its processor, its memory, its accelerators. Facts, whoever gathered them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.machine.reached import Reached

CPU = "cpu"
"""The device that is always there; accelerators are called as torch calls them, "cuda:0"."""

WEBGPU = "webgpu:"
"""Begins the names of devices that WebGPU drives; the number of the adapter follows."""

BY_WEBGPU = " WebGPU"
"""Ends the identity of a card's second entry, where torch drives it too."""

_DECLARED_SHARE = 32
"""A simulated accelerator's own software takes this part of its memory."""


class Vendor(StrEnum):
    """Makers of accelerators."""

    NVIDIA = "nvidia"
    AMD = "amd"
    INTEL = "intel"
    APPLE = "apple"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that could not be had, and why, in plain words."""

    fact: str
    reason: str


@dataclass(frozen=True, slots=True)
class Host:
    """Processor and memory, as far as this process may use them; bytes.

    Attributes:
        name: of the processor; empty where nobody tells.
        cores: physical cores that this process may run on.
        threads: hardware threads likewise.
        fast_cores: those of `cores` that are performance cores, where there are two kinds.
        instruction_sets: those that matter to kernels, as in "avx2", "amx_int8".
        kernels: those that the native library chose, as in "avx512"; empty without the library.
        kernels_left_out: those for this processor that the library was built without.
    """

    cores: int
    memory_total: int
    memory_available: int
    name: str = ""
    threads: int = 0
    fast_cores: int | None = None
    instruction_sets: tuple[str, ...] = ()
    kernels: str = ""
    kernels_left_out: tuple[str, ...] = ()
    missing: tuple[Missing, ...] = ()


@dataclass(frozen=True, slots=True)
class PcieLink:
    """An accelerator's PCIe link. Idle ones slow their link down to save power."""

    generation: int | None = None
    width: int | None = None
    max_generation: int | None = None
    max_width: int | None = None


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A GPU, or what is simulated to be one; bytes.

    Attributes:
        device: torch's name of it; "simulated:0" of a simulated one, "webgpu:0" of one that WebGPU
            drives; empty where nobody does.
        memory_free: what our process could hold on it, what it holds already included.
        unified: it works in the host's memory, so that both budgets are one.
        unusable: why this Duotail cannot use it; empty where it can.
        identity: what stays the same from start to start (a UUID, a bus address).
        bus: address on the PCI bus, "0000:01:00.0"; empty where it has none.
        architecture: what kernels are built for: "8.9" of NVIDIA's, "gfx1100" of AMD's.
        without_kernels: why weights are widened before every product there, which is slow: a
            sentence; empty where kernels read them as they are.
        software: bytes that its own software was measured to take; None: by what is usual.
        emulated: a software adapter, which computes on the CPU.
        by_name: it is used where the user names it, and for no other reason.
        chosen: the user named it.
        path: which software drives it, and why: a phrase; empty where only one could.
    """

    device: str
    name: str
    vendor: Vendor = Vendor.OTHER
    memory_total: int | None = None
    memory_free: int | None = None
    unified: bool = False
    simulated: bool = False
    unusable: str = ""
    identity: str = ""
    driver: str = ""
    bus: str = ""
    architecture: str = ""
    link: PcieLink | None = None
    missing: tuple[Missing, ...] = ()
    without_kernels: str = ""
    software: int | None = None
    emulated: bool = False
    by_name: bool = False
    chosen: bool = False
    path: str = ""

    @property
    def shares_host_memory(self) -> bool:
        """Tell whether its memory is memory of the host."""
        return self.unified or self.simulated

    @property
    def webgpu(self) -> bool:
        """Tell whether WebGPU drives it: without torch, in buffers that are counted exactly."""
        return self.device.startswith(WEBGPU)

    @property
    def card(self) -> str:
        """Identity of the card, whichever software drives it."""
        return self.identity.removesuffix(BY_WEBGPU)

    @property
    def takes_core(self) -> bool:
        """Tell whether it computes natively on a core of the host; on others torch computes."""
        return self.simulated

    @property
    def declared_software(self) -> int | None:
        """Bytes of its own software where it declares them itself."""
        return (self.memory_total or 0) // _DECLARED_SHARE if self.simulated else None

    @property
    def memory_of_others(self) -> int | None:
        """Bytes that other programs hold on it; None where its memory is not known."""
        if self.memory_total is None or self.memory_free is None:
            return None
        return max(self.memory_total - self.memory_free, 0)


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything a plan can be made with; accelerators in the system's order.

    Attributes:
        reached: speeds of answers on this machine, the newest first.
        untried: whether there are cards that WebGPU was not tried on yet.
    """

    host: Host
    accelerators: tuple[Accelerator, ...] = field(default=())
    reached: tuple[Reached, ...] = field(default=())
    untried: bool = False

    @property
    def usable(self) -> tuple[Accelerator, ...]:
        """The accelerators that can be planned with: usable, and their memory known."""
        return tuple(
            found
            for found in self.accelerators
            if not found.unusable and found.memory_total is not None
        )
