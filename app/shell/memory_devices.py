"""Use of each memory, put together from the engine's events. No Qt."""

from __future__ import annotations

from dataclasses import dataclass

from app.widgets.memory_parts import BarSegment, MemoryPart, Stack
from engine.events import AcceleratorSample, DeviceHeld, DeviceSample, MemoryHeld
from engine.machine.facts import CPU, Machine

_KEPT = ("kv", "features")
_SHARED = "device"
"""Owner of what all models on an accelerator share."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One memory.

    Attributes:
        device: the name in plans.
        name: the accelerator's name; empty for the PC's own memory.
        held: memory of the model; None where it holds nothing there.
    """

    device: str
    name: str
    simulated: bool
    stack: Stack
    held: DeviceHeld | None = None

    @property
    def used(self) -> int:
        """Bytes that anybody holds."""
        return self.stack.total - self.stack.of(MemoryPart.FREE)

    @property
    def is_host(self) -> bool:
        """True if it is the PC's own memory."""
        return self.device == CPU


def shown(
    sample: DeviceSample | None, told: MemoryHeld | None, machine: Machine | None = None
) -> tuple[Shown, ...]:
    """The accelerator that matters, if there is one, then the PC's memory; as far as is known."""
    if sample is None:
        return ()
    held = {each.device: each for each in told.devices} if told is not None else {}
    cards = [each for each in sample.accelerators if each.memory_total] or _at_rest(machine)
    card = next((each for each in cards if each.device in held), None)
    if card is None:
        card = next((each for each in cards if each.device), next(iter(cards), None))
    found = [] if card is None else [_card(card, held.get(card.device))]
    if sample.memory_total_bytes:
        simulated = {each.device for each in cards if each.simulated}
        found.append(_host(sample, held, simulated))
    return tuple(found)


def _at_rest(machine: Machine | None) -> list[AcceleratorSample]:
    """Return samples of accelerators that nobody watches: simulated ones that are not used."""
    found = machine.usable if machine is not None else ()
    return [
        AcceleratorSample(
            each.device,
            each.name,
            memory_used=each.memory_of_others,
            memory_total=each.memory_total,
            simulated=each.simulated,
        )
        for each in found
    ]


def _card(card: AcceleratorSample, held: DeviceHeld | None) -> Shown:
    total, parts = card.memory_total or 0, _parts(held, touched=False)
    ours = sum(parts.values())
    if card.memory_ours is not None:  # what the driver counts beyond our ledger is its own
        parts[MemoryPart.RUNTIME] += max(card.memory_ours - ours, 0)
        ours = sum(parts.values())
    others = max((card.memory_used or 0) - ours, 0)
    return Shown(card.device, card.name, card.simulated, _stack(total, parts, others), held)


def _host(sample: DeviceSample, held: dict[str, DeviceHeld], simulated: set[str]) -> Shown:
    """A simulated accelerator lies in the PC's memory."""
    total, parts = sample.memory_total_bytes or 0, _parts(held.get(CPU), touched=True)
    for device in simulated & held.keys():
        for part, nbytes in _parts(held[device], touched=True).items():
            parts[part] += nbytes
    process = sample.memory_bytes or 0
    parts[MemoryPart.RUNTIME] += max(process - sum(parts.values()), 0)
    free = sample.memory_available_bytes
    others = 0 if free is None else max(total - free - sum(parts.values()), 0)
    return Shown(CPU, "", simulated=False, stack=_stack(total, parts, others), held=held.get(CPU))


def _parts(held: DeviceHeld | None, *, touched: bool) -> dict[MemoryPart, int]:
    """A ledger by parts; `touched`: only what the system has really handed out."""
    parts = dict.fromkeys(
        (MemoryPart.TARGET, MemoryPart.DRAFT, MemoryPart.KEPT, MemoryPart.WORK, MemoryPart.RUNTIME),
        0,
    )
    for line in held.lines if held is not None else ():
        parts[part_of(line.owner, line.purpose)] += line.touched if touched else line.nbytes
    return parts


def part_of(owner: str, purpose: str) -> MemoryPart:
    """The part that a ledger's line belongs to."""
    if owner == _SHARED or purpose == "runtime":
        return MemoryPart.RUNTIME
    if purpose == "weights":
        return MemoryPart.DRAFT if owner == "draft" else MemoryPart.TARGET
    return MemoryPart.KEPT if purpose in _KEPT else MemoryPart.WORK


def _stack(total: int, parts: dict[MemoryPart, int], others: int) -> Stack:
    every = parts | {
        MemoryPart.FREE: max(total - sum(parts.values()) - others, 0),
        MemoryPart.OTHERS: others,
    }
    return Stack(total, tuple(BarSegment(part, n) for part, n in every.items() if n > 0))
