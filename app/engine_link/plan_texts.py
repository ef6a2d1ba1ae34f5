"""Modes and plans in words, for every place that names them."""

from __future__ import annotations

from engine.commands import Mode
from engine.events import PlanSummary
from engine.language import later, listed, number, tr, units
from engine.machine.facts import Accelerator, Machine

MODE_NAMES = {
    Mode.AUTO: later("Automatic"),
    Mode.DOVETAIL: "Dovetail",
    Mode.CPU: later("CPU"),
    Mode.PLAIN: later("Target alone"),
    Mode.DUO: "DuoDecoding",
}
"""Names of modes in the order in which they are offered; texts for `tr`."""
MODE_SENTENCES = {
    Mode.AUTO: later("The mode that should be fastest on this computer."),
    Mode.DOVETAIL: later("GPU and CPU share the work; draft and target take turns."),
    Mode.CPU: later("The CPU drafts and verifies; the GPU stays free."),
    Mode.PLAIN: later("No draft: the model generates one token at a time."),
    Mode.DUO: later("The CPU drafts while the GPU verifies, both at the same time."),
}
NO_ACCELERATOR = later("Needs a GPU that Duotail can use; there is none here.")
NO_DRAFT_MODEL = later("Needs a draft model: the model's own, or one that you open below.")
_CPU_NAME = "CPU"
"""Name of the CPU in a `PlanSummary`."""


def mode_name(mode: str | None) -> str:
    """Return the name of a mode; as it is stored where nobody knows it."""
    known = Mode(mode) if mode in set(Mode) else None
    return tr(MODE_NAMES[known]) if known is not None else mode or ""


def chosen_words(wished: Mode, plan: PlanSummary | None) -> str:
    """The mode that was chosen, and what came of it where that was left to Duotail."""
    if wished is Mode.AUTO and plan is not None:
        return tr("Auto: {mode}").format(mode=mode_name(plan.mode))
    return mode_name(wished)


def accelerator_of(machine: Machine | None) -> Accelerator | None:
    """The one that a plan would use."""
    return next(iter(machine.usable), None) if machine is not None else None


def is_simulated(machine: Machine | None) -> bool:
    """Return whether what is computed on an accelerator is computed on the CPU in truth."""
    found = machine.accelerators if machine is not None else ()
    return any(each.simulated for each in found)


def card_name(machine: Machine | None) -> str:
    """The accelerator by its name, in the middle of a sentence."""
    if is_simulated(machine):
        return tr("the simulated GPU")
    found = accelerator_of(machine)
    return found.name if found is not None else tr("the GPU")


def run_words(plan: PlanSummary, machine: Machine | None) -> str:
    """Return who drafts and who verifies, with the names of the devices."""
    return _said(plan, [card_name(machine), kind_of_card(machine)], draft_words(plan.draft))


def short_run_words(plan: PlanSummary, machine: Machine | None) -> str:
    """Return `run_words` for less room: the device by its kind, the draft by what it is."""
    card, draft = kind_of_card(machine), tr("head") if plan.draft_is_head else tr("draft")
    return _said(plan, [card, card], draft if plan.draft else None)


def draft_words(draft: str | None) -> str:
    """Return what drafts, by name, and lookup as the window calls it; "" where nothing does."""
    names = draft.split(" + ") if draft else []
    return " + ".join(tr("lookup") if name == "lookup" else name for name in names)


def kind_of_card(machine: Machine | None) -> str:
    """The accelerator by what it is, in the middle of a sentence."""
    return tr("the simulated GPU") if is_simulated(machine) else tr("the GPU")


def _said(plan: PlanSummary, cards: list[str], draft: str | None) -> str:
    """`cards`: what the graphics card is called when it is named first, and afterwards."""
    if plan.host:
        return tr("on {host}").format(host=plan.host)
    mode, drafts_on_cpu = mode_name(plan.mode), plan.draft_device in (None, _CPU_NAME)
    if plan.caveat:
        return tr("{mode} through the transformers library").format(mode=mode)
    if plan.draft and drafts_on_cpu and not plan.layers_on_gpu:
        return tr("{mode}, draft: {draft}").format(mode=mode, draft=draft_words(plan.draft))
    parts, card = [], cards[0]
    if draft:
        on = tr("{part} on the CPU") if drafts_on_cpu else tr("{part} on {device}")
        parts.append(on.format(part=draft, device=card))
        card = card if drafts_on_cpu else cards[1]
    parts.append(_target(plan, card))
    return tr("{mode}: {parts}").format(mode=mode, parts=listed(parts))


def _target(plan: PlanSummary, card: str) -> str:
    some, every = plan.layers_on_gpu, plan.layers
    if not some:
        return tr("target on the CPU")
    if some == every:
        return tr("target on {device}").format(device=card)
    return tr("target on {device} ({some} of {all} layers) and the CPU").format(
        some=number(some), all=number(every), device=card
    )


def about_speed(tokens_per_s: float) -> str:
    """Return a predicted speed in words."""
    return tr("about {speed} tokens/s").format(speed=units.tokens_per_s(tokens_per_s, about=True))


def unbroken(text: str) -> str:
    """The text with units such as "tokens/s" on one line."""
    return text.replace("/", "/\N{WORD JOINER}")
