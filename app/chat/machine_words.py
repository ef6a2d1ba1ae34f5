"""Texts on the hardware of this PC, in a line or two."""

from __future__ import annotations

from engine.language import listed, tr, tr_count
from engine.language.units import memory
from engine.machine.cores import available_cores
from engine.machine.facts import Accelerator, Machine


def machine_words(machine: Machine | None) -> str:
    """Processor, memory and graphics cards; why a card is not used."""
    cores = available_cores() if machine is None else machine.host.cores
    parts = [tr_count("{n} CPU core", "{n} CPU cores", cores)]
    if machine is None:
        return _found(parts)
    parts.append(tr("{size} of memory").format(size=memory(machine.host.memory_total)))
    # A card that two programs can drive is one card.
    parts += [_card(each) for each in machine.usable if each.identity == each.card]
    said = [_found(parts)]
    if not machine.accelerators:
        said.append(tr("No GPU was found."))
    said += [
        tr("{name} is not used: {reason}.").format(name=card.name, reason=card.unusable)
        for card in machine.accelerators
        if card.unusable
    ]
    return "\n".join(said)


def joined(parts: list[str]) -> str:
    """“One, two and three”."""
    if len(parts) == 1:
        return parts[0]
    return tr("{some} and {last}").format(some=listed(parts[:-1]), last=parts[-1])


def _found(parts: list[str]) -> str:
    return tr("Found here: {hardware}.").format(hardware=joined(parts))


def _card(card: Accelerator) -> str:
    """Return a GPU's name and memory; the name of a simulated GPU says that it is one."""
    size = memory(card.memory_total or 0)
    return tr("{name} with {size}").format(name=card.name, size=size)
