"""Why a wish cannot be met, in words, and what would work instead."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import fields, replace

from engine.commands import Mode, WeightFormat
from engine.errors import Absent, NotPossible, OutOfMemory
from engine.language import listed, number, sentences, tr
from engine.machine.facts import CPU, Machine
from engine.machine.memory import DeviceMemory, Shortage, host_reserve
from engine.model.gguf.header import KIND_OF_NAME
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Footprint, allowed_cuts
from engine.plan.memory import SMALLEST_CONTEXT
from engine.plan.search import Placement, PlacementSearch

GIB = 2**30
_FOUR_BITS = 18 / 32
_MUCH_SMALLER = 0.75
_ROUNDING = 64
"""Tokens for which memory is taken at once."""


def check_wish(
    machine: Machine, target: ModelFacts, drafts: Sequence[DraftFacts], wish: Wish
) -> None:
    """Refuse what no budget makes possible.

    Raises:
        Absent: a graphics card is needed, and there is none that Duotail can use.
        NotPossible: the wish contradicts itself, or this model or draft.
    """
    check_mode(wish.mode, machine)
    layers, count = wish.layers_on_gpu or 0, len(target.footprint.blocks)
    if layers and not machine.usable:
        raise Absent(
            sentences(
                tr("Layers can only run on a GPU that Duotail can use."),
                *_unusable(machine),
            ),
            tr("Let Duotail choose the number of layers on the GPU."),
        )
    on_device = layers or wish.mode in (Mode.DOVETAIL, Mode.DUO)
    if target.other_family and on_device:
        raise NotPossible(
            tr("{model} runs through the transformers library, on the CPU only.").format(
                model=target.name
            ),
            tr("Choose mode auto or plain."),
        )
    if not 0 <= layers <= count:
        raise NotPossible(
            tr("{model} has {count} layers; {layers} cannot be put on the GPU.").format(
                model=target.name, count=count, layers=layers
            ),
            tr("Choose between 0 and {most}.").format(most=count),
        )
    cuts = allowed_cuts(target.footprint).tolist()
    if not cuts[layers]:
        raise NotPossible(
            tr("{model} cannot be split after {layers} layers: some share keys and values.").format(
                model=target.name, layers=layers
            ),
            tr("Choose one of {possible}.").format(
                possible=listed(str(cut) for cut, allowed in enumerate(cuts) if allowed)
            ),
        )
    if layers and wish.mode is Mode.CPU:
        raise NotPossible(
            tr("In mode “cpu”, no layers are on the GPU."),
            tr("Choose mode auto, or no layers on the GPU."),
        )
    if wish.mode is Mode.DUO and wish.layers_on_gpu not in (None, count):
        raise NotPossible(
            tr("In mode “duo”, all layers of the target are on the GPU."),
            tr("Choose mode dovetail, or all layers on the GPU."),
        )
    _check_sources(drafts, wish)


def check_mode(mode: Mode, machine: Machine) -> None:
    """Refuse a mode that needs a graphics card where there is none.

    Raises:
        Absent: in words for the user.
    """
    if mode in (Mode.DOVETAIL, Mode.DUO) and not machine.usable:
        raise Absent(
            sentences(
                tr("Mode “{mode}” needs a GPU that Duotail can use.").format(mode=mode),
                *_unusable(machine),
            ),
            tr("Choose mode auto, cpu or plain."),
        )


def _check_sources(drafts: Sequence[DraftFacts], wish: Wish) -> None:
    if wish.mode is Mode.DUO and not drafts:
        raise NotPossible(
            tr("Mode “duo” needs a draft model, and none was chosen."),
            tr("Choose a draft model, or another mode."),
        )
    if wish.mode is Mode.DOVETAIL and not (drafts or wish.lookup):
        raise NotPossible(
            tr("Mode “dovetail” needs something that drafts, and nothing was chosen."),
            tr("Choose a draft, or mode plain."),
        )


def _unusable(machine: Machine) -> list[str]:
    """Explain why the accelerators that are here are not used."""
    said = tr("{name} is not used: {reason}.")
    found = [each for each in machine.accelerators if each.unusable]
    return [said.format(name=each.name, reason=each.unusable) for each in found]


def does_not_fit(
    search: PlacementSearch,
    drafts: Sequence[DraftFacts],
    nearest: Placement,
    memory: Sequence[DeviceMemory],
    ceiling: int,
) -> OutOfMemory:
    """Return the error where nothing fits: what the smallest placement needs, and what is free.

    Args:
        search: that found nothing.
        drafts: the candidates.
        nearest: the smallest placement.
        memory: that it would take, the CPU first.
        ceiling: bytes of the accelerator that may be used.
    """
    ram, vram, wish, found = nearest.ram, nearest.vram, search.wish, search.accelerator
    host, name = search.host, search.target.name
    whole, free = (ram + host_reserve(host)) / GIB, _gib(host.memory_available / GIB)
    lacking = _shortage(search, nearest, memory, ceiling)
    if lacking.budgeted:
        remedy = tr("Raise the budget, or choose a mode that needs less GPU memory.")
    else:
        remedy = _remedy(search, drafts, ceiling)
    if found is None or found.unified or not vram:
        said = tr("{model} needs {needed} GiB of memory here, and {free} GiB are free.")
        cause = said.format(model=name, needed=_gib(whole), free=free)
        return OutOfMemory(cause, remedy, shortage=lacking)
    names = {"model": name, "device": found.name, "budget": _gib(ceiling / GIB)}
    if vram > ceiling and (wish.layers_on_gpu is not None or wish.mode is Mode.DUO):
        said = tr(
            "{model} needs {needed} GiB of {device} for that, and the budget there is {budget} GiB."
        )
        return OutOfMemory(
            said.format(needed=_gib(vram / GIB), **names),
            tr("Raise the budget, put fewer layers there, or choose a smaller model."),
            shortage=lacking,
        )
    said = tr(
        "{model} needs {needed} GiB in all; {free} GiB of memory are free, and "
        "{budget} GiB of {device} may be used."
    )
    both = whole if search.one_memory else whole + vram / GIB
    return OutOfMemory(said.format(needed=_gib(both), free=free, **names), remedy, shortage=lacking)


def _shortage(
    search: PlacementSearch, nearest: Placement, memory: Sequence[DeviceMemory], ceiling: int
) -> Shortage:
    """Return the shortage of the device that lacks more."""
    found, most, (on_host, *there) = search.accelerator, search.host_budget, memory
    if found is not None and there and nearest.vram - ceiling > max(nearest.ram - most, 0):
        own = search.wish.vram is not None and nearest.vram <= search.limit
        needed = _whole(there[0], nearest.vram)
        return Shortage(found.device, found.name, needed, ceiling, budgeted=own)
    if there and search.one_memory:
        purposes = [each.name for each in fields(DeviceMemory) if each.name not in _NOT_BYTES]
        sums = {name: getattr(on_host, name) + getattr(there[0], name) for name in purposes}
        on_host = DeviceMemory(CPU, on_host.budget, **sums)
    return Shortage(CPU, tr("Memory"), _whole(on_host, nearest.ram), most)


def _gib(size: float) -> str:
    return number(size, ".1f")


_NOT_BYTES = ("device", "budget")


def _whole(memory: DeviceMemory, nbytes: int) -> DeviceMemory:
    """Add software and rounding, which count for a device as a whole."""
    return replace(memory, runtime=memory.runtime + max(nbytes - memory.total, 0))


def _remedy(search: PlacementSearch, drafts: Sequence[DraftFacts], ceiling: int) -> str:
    """Suggest what would fit."""
    wish, held = search.wish, search.target.footprint
    # A little less than fits now: other programs may take memory before the user has chosen.
    tokens = 0 if wish.context is None else _longest_context(search, ceiling) * 31 // 32
    spare = search.host_budget + (0 if search.one_memory else search.limit) - held.weight_bytes
    if wish.forced and drafts:
        spare -= drafts[0].model.footprint.weight_bytes
    if tokens >= SMALLEST_CONTEXT:
        return tr("Choose a context of at most {tokens} tokens, or close other programs.").format(
            tokens=number(tokens)
        )
    small = four_bit_bytes(held)
    if small < held.weight_bytes * _MUCH_SMALLER and small < spare + held.weight_bytes:
        return tr(
            "In the format {format} it would take about {size} GiB; or choose a smaller model."
        ).format(format=WeightFormat.Q4, size=_gib(small / GIB))
    return tr("Close other programs, choose a shorter context or a smaller model.")


def _longest_context(search: PlacementSearch, ceiling: int) -> int:
    """Return the tokens of the longest context that fits; 0 where none does."""
    tokens = range(0, search.context, _ROUNDING)
    too_long = bisect_left(tokens, True, key=lambda each: search.at(each).best(ceiling) is None)
    return tokens[max(too_long - 1, 0)]


def four_bit_bytes(held: Footprint) -> int:
    """Return about the bytes that the model's weights would take in 4 bits."""
    parts = [held.embedding, *held.blocks, *(() if held.tied else (held.head,))]
    numbers = 0.0
    for part in parts:
        for kind, count in (*part.dense, *part.experts):
            block = KIND_OF_NAME[kind]
            numbers += count / block.nbytes * block.numbers
    return int(numbers * _FOUR_BITS)
