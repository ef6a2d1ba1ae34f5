"""A plan's reasons in words, the most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from engine.commands import KvType, Mode, WeightFormat
from engine.language import number, tr
from engine.language.units import memory, tokens_per_s
from engine.machine.facts import CPU, Machine
from engine.machine.memory import device_reserve
from engine.machine.reached import FALLS_SHORT, PlacementKind, Reached
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.memory import together
from engine.plan.plan import Plan
from engine.plan.search import Placement, PlacementSearch

GIB = 2**30
_WORTH_TELLING = 1.02


@dataclass(frozen=True, slots=True)
class Told:
    """The plan that the reasons explain, and the facts it comes from.

    Attributes:
        drafts: candidates, also where none of them was searched with.
        ceiling: bytes that may be held on the accelerator.
        reached: by answers of these models, the newest first.
    """

    machine: Machine
    search: PlacementSearch
    drafts: Sequence[DraftFacts]
    placement: Placement
    plan: Plan
    ceiling: int
    reached: Sequence[Reached] = ()

    @property
    def target(self) -> ModelFacts:
        """The model that is planned for."""
        return self.search.target

    @property
    def wish(self) -> Wish:
        """The user's wishes."""
        return self.search.wish

    @property
    def device(self) -> str:
        """The accelerator's name for people."""
        found = self.search.accelerator
        return found.name if found else ""


def reasons(told: Told) -> tuple[str, ...]:
    """Return all reasons, the most important first."""
    return tuple(_reasons(told))


def caveat(target: ModelFacts) -> str:
    """Return the limits of a model that runs through transformers; "" for other models."""
    if not target.other_family:
        return ""
    return tr(
        "Duotail has no decoder of its own for “{family}” models: {model} runs through the "
        "transformers library, without drafting, and the same seed may give another answer."
    ).format(family=target.other_family, model=target.name)


def _reasons(told: Told) -> Iterator[str]:
    plan, target = told.plan, told.target
    yield from _moved(told)
    idle = plan.accelerator is None  # then that is what needs a reason
    if idle:
        yield from _accelerators(told)
    yield _where(told)
    if target.footprint.format is WeightFormat.F32 and not target.other_family:
        yield tr("Without Duotail's native backend (a C compiler builds it) this is slow.")
    yield from _kv(told)
    yield _who_drafts(told)
    yield from _head(told)
    yield from _loop(told)
    if plan.draft_device is not None and not told.wish.forced:
        yield tr("If drafting does not pay, the target decodes alone for a while.")
    yield from _draft_left_out(told)
    if not idle:
        yield from _accelerators(told)
    if plan.context < target.max_positions and told.wish.context is None:
        cut = tr("The context is cut to {context} tokens to fit the free memory.")
        if plan.accelerator is not None:
            cut = tr("The context is cut to {context} tokens to leave room on {device}.")
        yield cut.format(context=number(plan.context), device=told.device)
    yield from _budget(told)


# ---- what was tried before -------------------------------------------------------------------


def _moved(told: Told) -> Iterator[str]:
    """Say which other placement was tried and was slower, and how fast a simulated card is."""
    here, seen = told.plan.key.kind, set[PlacementKind]()
    for each in told.reached:
        kind, rate = each.placement.kind, each.tokens_per_s
        nameless = kind is not PlacementKind.CPU and not told.device
        if kind is here or kind in seen or nameless or rate >= told.placement.rate:
            continue
        seen.add(kind)
        said = tr("{way} was tried and is slower here: {rate} tokens/s.")
        yield said.format(way=_way(kind, told.device), rate=tokens_per_s(rate, about=True))
    pace = next((each.pace for each in told.reached if each.pace is not None), None)
    found = told.search.accelerator
    if pace is not None and pace < FALLS_SHORT and found is not None and found.takes_core:
        said = tr("{device} keeps {share} of its declared speed with this model on this computer.")
        yield said.format(device=told.device, share=number(pace, ".0%"))


def _way(kind: PlacementKind, device: str) -> str:
    said = {
        PlacementKind.CPU: tr("The CPU alone"),
        PlacementKind.ALONE: tr("{device} without a draft"),
        PlacementKind.TURNS: tr("Drafting and verifying in turns with {device}"),
        PlacementKind.BOTH: tr("Drafting and verifying at the same time with {device}"),
    }
    return said[kind].format(device=device)


# ---- where the target is ---------------------------------------------------------------------


def _where(told: Told) -> str:
    """Explain which devices hold the target, with the numbers that decided it."""
    held, plan = told.target.footprint, told.plan
    layers, count = plan.layers_on_gpu, len(held.blocks)
    names = {"model": told.target.name, "format": held.words, "device": told.device}
    size = held.weight_bytes / GIB
    if not layers:
        said = tr("{model} runs on the CPU: {size} GiB of weights in {format}.")
        return said.format(size=number(size, ".2f"), **names)
    if told.placement.cut > count:
        said = tr("{model} fits on {device} whole: {size} GiB of weights in {format}.")
        return said.format(size=number(size, ".2f"), **names)
    if told.wish.layers_on_gpu is not None:
        said = tr(
            "{layers} of {count} layers of {model} are on {device}, as you asked; the CPU has the "
            "rest."
        )
        return said.format(layers=layers, count=count, **names)
    return _split(told, layers, count)


def _split(told: Told, layers: int, count: int) -> str:
    """Explain a split target."""
    search, plan = told.search, told.plan
    beside = plan.draft_device not in (None, CPU)
    wished = told.wish.vram is not None
    if search.needed(told.placement.strategy) <= told.ceiling:
        said = tr(
            "{layers} of {count} layers of {model} are on {device}: more of it there would bring "
            "hardly more speed."
        )
    elif layers == count:
        said = tr(
            "All {count} layers of {model} are on {device}, but its output matrix does not fit as "
            "well: that is the CPU's."
        )
    elif beside and wished:
        said = tr(
            "{model} needs {needed} GiB, your budget is {budget}: {layers} of {count} "
            "layers fit beside the draft, so the CPU verifies the rest (Dovetail)."
        )
    elif beside:
        said = tr(
            "{model} needs {needed} GiB, and {device} has {budget} free: {layers} of "
            "{count} layers fit beside the draft, so the CPU verifies the rest (Dovetail)."
        )
    elif wished:
        said = tr(
            "{model} needs {needed} GiB, your budget is {budget}: {layers} of {count} "
            "layers fit, and the CPU has the rest."
        )
    else:
        said = tr(
            "{model} needs {needed} GiB, and {device} has {budget} free: {layers} of "
            "{count} layers fit, and the CPU has the rest."
        )
    return said.format(
        model=told.target.name,
        needed=number(int(together(search.device_memory, None)[-1]) / GIB, ".1f"),
        budget=number(told.ceiling / GIB, ".1f"),
        layers=layers,
        count=count,
        device=told.device,
    )


def _kv(told: Told) -> Iterator[str]:
    """Explain what became of a wish for a KV cache in 8 bits."""
    if told.wish.kv is KvType.F16:
        return
    found, held = told.search.accelerator, told.target.footprint
    if held.kv is KvType.F16:
        yield tr("The KV cache is not in 8 bits: only Duotail's native CPU backend has that.")
    elif told.plan.layers_on_gpu and found is not None and not found.takes_core:
        yield tr("The KV cache is in 8 bits on the CPU; on {device} it stays in 16.").format(
            device=told.device
        )
    else:
        yield tr("The KV cache is in 8 bits, as you asked.")


# ---- who drafts ------------------------------------------------------------------------------


def _who_drafts(told: Told) -> str:
    plan, wish = told.plan, told.wish
    if told.target.other_family:
        return caveat(told.target)
    if plan.draft_device is None and wish.mode is Mode.PLAIN:
        return tr("The target decodes alone, because you asked for plain decoding.")
    if plan.draft_device is None and told.drafts:
        return tr("The target decodes alone, because drafting would not be faster here.")
    if plan.draft_device is None:
        return tr("The target decodes alone, because no draft was chosen.")
    if plan.draft is None:
        return tr("The conversation itself (lookup) proposes tokens.")
    names = {"draft": told.drafts[plan.draft].model.name, "device": told.device}
    on_device = plan.draft_device != CPU
    if wish.lookup and on_device:
        said = tr("{draft} on {device} and the conversation itself (lookup) propose tokens.")
    elif wish.lookup:
        said = tr("{draft} and the conversation itself (lookup) propose tokens.")
    elif on_device:
        said = tr("{draft} proposes tokens on {device}.")
    elif plan.layers_on_gpu:
        said = tr("{draft} proposes tokens on the CPU.")
    else:
        said = tr("{draft} proposes tokens.")
    return said.format(**names)


def _head(told: Told) -> Iterator[str]:
    """Explain what a feature head is, and what it takes of the host's memory."""
    plan = told.plan
    if plan.draft is None or not told.drafts[plan.draft].is_head:
        return
    said = tr(
        "{draft} is a feature head: it drafts from what {model} has computed, of which {size} are "
        "kept in memory."
    )
    names = {"draft": told.drafts[plan.draft].model.name, "model": told.target.name}
    yield said.format(size=memory(plan.on(CPU).features), **names)


def _loop(told: Told) -> Iterator[str]:
    """Explain why decoding drafts and verifies in turns or at the same time."""
    plan, search = told.plan, told.search
    if plan.draft is None or not plan.layers_on_gpu:
        return
    share = number(search.draft_share(told.placement), ".2f")
    if plan.mode is Mode.DUO:
        turns = search.other(
            told.ceiling, lambda each: each.draft is not None and not each.parallel
        )
        if turns is None:
            said = tr(
                "Drafting and verifying run at the same time (DuoDecoding): a drafted token takes "
                "{share} of a verification."
            )
            yield said.format(share=share)
            return
        said = tr(
            "Drafting and verifying run at the same time (DuoDecoding): a drafted token takes "
            "{share} of a verification, and in turns it would be {rate} tokens/s instead "
            "of {best}."
        )
        yield said.format(share=share, rate=_rate(turns), best=_rate(told.placement))
        return
    both = search.other(told.ceiling, lambda each: each.parallel)
    if both is not None:
        said = tr(
            "Drafting and verifying take turns: a drafted token takes {share} of a "
            "verification, and at the same time (DuoDecoding) it would be {rate} tokens/s "
            "instead of {best}."
        )
        yield said.format(share=share, rate=_rate(both), best=_rate(told.placement))


def _rate(placement: Placement) -> str:
    return tokens_per_s(placement.rate, about=True)


def _draft_left_out(told: Told) -> Iterator[str]:
    plan = told.plan
    if plan.draft is not None or not told.drafts or told.wish.mode is Mode.PLAIN:
        return
    if told.target.other_family:
        return
    name = told.drafts[0].model.name
    drafted = told.search.other(told.ceiling, lambda each: each.draft is not None)
    if drafted is None:
        yield tr("{draft} was left out: it does not fit into the memory beside the target.").format(
            draft=name
        )
        return
    said = tr("{draft} was left out: drafting with it would give {gain} times the speed.")
    yield said.format(draft=name, gain=number(drafted.drafting / told.placement.rate, ".2f"))


# ---- accelerators ----------------------------------------------------------------------------


def _accelerators(told: Told) -> Iterator[str]:
    """Explain why accelerators that are here do nothing."""
    machine, used = told.machine, told.plan.accelerator
    on_cpu = told.wish.mode is Mode.CPU or bool(told.target.other_family)
    unmeasured = told.search.accelerator is None and not on_cpu  # all of them, without kernels
    card = next((each.card for each in machine.accelerators if each.device == used), "")
    for found in machine.accelerators:
        if found.unusable:
            said = tr("{name} is not used: {reason}.")
            yield said.format(name=found.name, reason=found.unusable.removesuffix("."))
        elif unmeasured and found in machine.usable:
            said = tr("{name} is not used before its speed has been measured. {reason}")
            yield said.format(name=found.name, reason=found.without_kernels).strip()
        elif found.device != used and used is not None and not (card and found.card == card):
            yield tr(
                "{name} is not used: a model runs on one GPU only, and {device} is faster."
            ).format(name=found.name, device=told.device)
    if used is not None or unmeasured or not machine.usable or told.target.other_family:
        return
    name = told.device or machine.usable[0].name
    if told.wish.mode is Mode.CPU:
        yield tr("{name} is not used, because you asked for the CPU.").format(name=name)
    elif told.wish.vram == 0 or told.wish.layers_on_gpu == 0:
        yield tr("{name} is not used, because you allowed it no memory or layers.").format(
            name=name
        )
    else:
        there = told.search.other_on_device(told.ceiling)
        if there is None:
            said = tr("{name} is not used: too little of its memory is free ({free} GiB).")
            yield said.format(name=name, free=number(told.ceiling / GIB, ".1f"))
        elif there.rate * _WORTH_TELLING < told.placement.rate:
            said = tr("{name} is not used: the CPU alone is faster ({best} tokens/s to {rate}).")
            yield said.format(name=name, best=_rate(told.placement), rate=_rate(there))
        else:
            said = tr("{name} is not used: the CPU alone is about as fast ({best} tokens/s).")
            yield said.format(name=name, best=_rate(told.placement))


def _budget(told: Told) -> Iterator[str]:
    """Explain what is left to other programs."""
    plan, found = told.plan, told.search.accelerator
    if found is None or plan.accelerator is None:
        return
    if found.takes_core:
        yield tr("{device} runs on the CPU: it shows how a GPU works, but is no faster.").format(
            device=told.device
        )
    elif found.unified:
        yield tr("{device} shares the computer's memory: one budget covers both.").format(
            device=told.device
        )
    elif reserve := device_reserve(found):
        said = tr("{reserve} GiB of {device} are left to other programs.")
        yield said.format(reserve=number(reserve / GIB, ".1f"), device=told.device)
