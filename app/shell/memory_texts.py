"""Memories and what they hold, in words of several lengths. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from app.shell.memory_devices import Shown
from app.widgets.memory_parts import MemoryPart
from engine.language import later, listed, number, sentences, tr
from engine.language.units import memory

_GIB = 2**30


class Verbosity(IntEnum):
    """Steps of text length, by the room there is."""

    AMPLE = 0
    USUAL = 1
    SCARCE = 2


_AMOUNTS = {
    # by whether it is the PC's own, and whether it is simulated
    Verbosity.AMPLE: (
        later("Memory {used} of {total} GiB"),
        later("GPU memory {used} of {total} GiB"),
        later("Simulated GPU memory {used} of {total} GiB"),
    ),
    Verbosity.SCARCE: (
        later("PC {used}/{total} GiB"),
        later("GPU {used}/{total} GiB"),
        later("Simulated {used}/{total} GiB"),
    ),
}
_HOST_RUNTIME = later("Duotail itself")


def amount(shown: Shown, room: Verbosity) -> str:
    """Return the memory in use, before the bar."""
    return _amount(shown, room, shown.used)


def amount_at_most(shown: Shown, room: Verbosity) -> str:
    """Return the widest amount, which has all memory in use."""
    return _amount(shown, room, shown.stack.total)


def _amount(shown: Shown, room: Verbosity, used: int) -> str:
    kinds = _AMOUNTS[Verbosity.SCARCE if room is Verbosity.SCARCE else Verbosity.AMPLE]
    kind = 0 if shown.is_host else 1 + shown.simulated
    return tr(kinds[kind]).format(used=number(used / _GIB, ".1f"), total=_whole(shown.stack.total))


def free(shown: Shown, room: Verbosity) -> str:
    """Return the free memory, shown behind the bar; "" where there is no room for it."""
    if room is not Verbosity.AMPLE:
        return ""
    return tr("{size} free").format(size=memory(shown.stack.of(MemoryPart.FREE)))


def name_of(shown: Shown) -> str:
    """The memory, for headings."""
    if shown.is_host:
        return tr("Memory of this computer")
    if shown.simulated:
        return tr("{name} (in this computer's memory)").format(name=shown.name)
    return shown.name


def part_name(shown: Shown, part: MemoryPart) -> str:
    """Return the name of a stretch of the bar."""
    if part is MemoryPart.RUNTIME and shown.is_host:
        return tr(_HOST_RUNTIME)
    return tr(part.value)


def parts_in_words(shown: Shown) -> list[str]:
    """Every stretch of a bar with its size, from the left to the right."""
    said = tr("{part} {size}")
    return [
        said.format(part=part_name(shown, each.part), size=memory(each.nbytes))
        for each in shown.stack.segments
    ]


def describe(all_shown: Sequence[Shown]) -> str:
    """Everything, for those who hear it."""
    if not all_shown:
        return tr("No memory data yet.")
    said = tr("{name}, {amount}: {parts}.")
    return sentences(
        *(
            said.format(
                name=name_of(each),
                amount=amount(each, Verbosity.AMPLE),
                parts=listed(parts_in_words(each)),
            )
            for each in all_shown
        )
    )


def error_in_words(typical: float | None) -> str:
    """Return the usual error of estimates for the present model."""
    if typical is None:
        return tr("Accuracy is known after the first response.")
    return tr("Half of the estimates for this model are off by less than {share}.").format(
        share=number(typical, ".1%")
    )


def _whole(nbytes: int) -> str:
    size = nbytes / _GIB
    return number(size, ".0f" if abs(size - round(size)) < 0.05 else ".1f")
