"""What the machine is doing, and what is held in its memories."""

from __future__ import annotations

from dataclasses import dataclass

from engine.machine.facts import Missing
from engine.machine.memory import DeviceMemory, Holder


@dataclass(frozen=True, slots=True)
class AcceleratorSample:
    """Activity of an accelerator. None: not measurable here, or not at this moment.

    Attributes:
        device: its name in a plan, "cuda:0"; empty until a probe has found it, and where torch
            has none for it.
        percent: percentage of the time in which it computed something, for any program.
        memory_used: bytes held on it by all programs.
        memory_ours: bytes of these held by this process.
        temperature: degrees Celsius.
        power: watts.
        identity: that of `engine.machine.facts.Accelerator`.
        simulated: whether it is simulated, to be said wherever it shows.
        missing: why something is None.
        holders: other programs that hold memory there, as far as the driver tells, the largest
            first.
    """

    device: str
    name: str
    percent: float | None = None
    memory_used: int | None = None
    memory_ours: int | None = None
    memory_total: int | None = None
    temperature: float | None = None
    power: float | None = None
    identity: str = ""
    simulated: bool = False
    missing: tuple[Missing, ...] = ()
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True, slots=True)
class DeviceSample:
    """Activity of the machine, twice a second. None: not measurable here."""

    at: float
    cpu_percent: float | None
    """This process, in percent of all cores available to it."""
    system_cpu_percent: float | None
    memory_bytes: int | None
    memory_total_bytes: int | None
    accelerators: tuple[AcceleratorSample, ...] = ()
    """Every one that was seen since the start, in the system's order."""
    memory_available_bytes: int | None = None
    """What of the total another program could have, or this one more of."""

    @property
    def accelerator(self) -> AcceleratorSample | None:
        """The one to show where there is room for one: the first that can be computed on."""
        usable = (sample for sample in self.accelerators if sample.device)
        return next(usable, self.accelerators[0] if self.accelerators else None)


@dataclass(frozen=True, slots=True)
class HeldLine:
    """Bytes that are held for one purpose; see `engine.backend.ledger.Held`.

    `owner`: "target", "draft", ...; `purpose`: "weights", "kv", "features", "workspace", "runtime".
    """

    owner: str
    purpose: str
    nbytes: int
    touched: int


@dataclass(frozen=True, slots=True)
class DeviceHeld:
    """Memory that the loaded model holds on one device, as its allocators count it.

    `predicted`: what its plan predicted for the device; None where it was not to be used.
    """

    device: str
    budget: int | None
    lines: tuple[HeldLine, ...]
    predicted: DeviceMemory | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of all lines."""
        return sum(line.nbytes for line in self.lines)


@dataclass(frozen=True, slots=True)
class MemoryHeld:
    """Sent after every load, unload and answer; the CPU first. Without a model there are none.

    `typical_error`: how far plans for this model were off in their sum, as a share of what was
    held: the median of its loads here. None before the first answer of the first of them.
    """

    at: float
    devices: tuple[DeviceHeld, ...]
    typical_error: float | None = None
