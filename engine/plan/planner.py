"""The planner, first version: everything on the CPU; how much context, drafting or not, and why.

Pure: facts in, a plan out.
"""

from __future__ import annotations

from collections.abc import Sequence

from engine.commands import Mode, WeightFormat
from engine.errors import Absent, NotPossible, OutOfMemory
from engine.language import tr
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.machine import CPU, Machine
from engine.plan.plan import DeviceMemory, Plan, Share
from engine.plan.speeds import Speeds

__all__ = ["DraftFacts", "ModelFacts", "Wish", "check_mode", "plan"]

KV_SHARE = 0.25
"""Share of the free memory that cached keys and values may take, all conversations together."""

SMALLEST_CONTEXT = 256
GIB = 2**30


def plan(
    machine: Machine,
    speeds: Speeds,  # noqa: ARG001 - until devices are compared
    target: ModelFacts,
    drafts: Sequence[DraftFacts],
    wish: Wish,
) -> Plan:
    """Place target and draft.

    Raises:
        Absent: the mode needs what this version or this machine does not have.
        OutOfMemory: the models do not fit into the free memory.
        NotPossible: a context that the model does not handle.
    """
    check_mode(wish.mode)
    draft = drafts[0].model if drafts else None
    memory_available = machine.host.memory_available
    weights = target.footprint.weight_bytes + (draft.footprint.weight_bytes if draft else 0)
    per_token = target.footprint.kv_bytes_per_token
    per_token += draft.footprint.kv_bytes_per_token if draft else 0
    free = memory_available - weights
    context = _context(target, wish, free, per_token)
    needed = weights + context * per_token
    if needed > memory_available:
        raise OutOfMemory(
            tr(
                "{model} needs {needed:.1f} GiB of memory here, and {free:.1f} GiB are free."
            ).format(model=target.name, needed=needed / GIB, free=memory_available / GIB),
            tr("Close other programs, choose a shorter context or a smaller model."),
        )
    sources = bool(draft) or wish.lookup
    drafting = sources and wish.mode is not Mode.PLAIN and not target.other_family
    blocks = range(len(target.footprint.blocks))
    return Plan(
        mode=Mode.CPU if drafting else Mode.PLAIN,
        target=(Share(CPU, blocks, embeds=True, heads=True),),
        draft=0 if draft and drafting else None,
        draft_device=CPU if drafting else None,
        lookup=wish.lookup and drafting,
        context=context,
        depth=0,
        tokens_per_s=None,
        plain_tokens_per_s=None,
        memory=(
            DeviceMemory(
                CPU,
                memory_available,
                target=target.footprint.weight_bytes,
                draft=draft.footprint.weight_bytes if draft and drafting else 0,
                kv=context * per_token,
            ),
        ),
        reasons=_reasons(target, draft, wish, drafting, context),
    )


def check_mode(mode: Mode) -> None:
    """Refuse a mode that needs a graphics card.

    Raises:
        Absent: in words for the user.
    """
    if mode in (Mode.DOVETAIL, Mode.DUO):
        raise Absent(
            tr(
                "The mode “{mode}” needs a graphics card, which this version cannot use yet."
            ).format(mode=mode),
            tr("Choose the mode auto, cpu or plain."),
        )


def _context(target: ModelFacts, wish: Wish, free: int, per_token: int) -> int:
    if wish.context is not None:
        if not 1 <= wish.context <= target.max_positions:
            raise NotPossible(
                tr(
                    "A context of {context} tokens is not possible: {model} handles up to {most}."
                ).format(context=wish.context, model=target.name, most=target.max_positions),
                tr("Choose between 1 and {most}.").format(most=target.max_positions),
            )
        return wish.context
    affordable = int(max(free, 0) * KV_SHARE) // per_token
    return min(target.max_positions, max(affordable, SMALLEST_CONTEXT))


def caveat(target: ModelFacts) -> str:
    """What is less than usual about a model that runs through transformers."""
    if not target.other_family:
        return ""
    return tr(
        "Duotail has no decoder of its own for “{family}” models: {model} runs through the "
        "transformers library, without drafting, and the same seed may give another answer."
    ).format(family=target.other_family, model=target.name)


def _reasons(
    target: ModelFacts, draft: ModelFacts | None, wish: Wish, drafting: bool, context: int
) -> tuple[str, ...]:
    held = target.footprint
    reasons = [
        tr("{model} runs on the CPU: {size:.2f} GiB of weights in {format}.").format(
            model=target.name, size=held.weight_bytes / GIB, format=held.words
        )
    ]
    if held.format is WeightFormat.F32 and not target.other_family:
        reasons.append(
            tr("Without Duotail's native backend (a C compiler builds it) this is slow.")
        )
    reasons.append(_who_drafts(target, draft, wish, drafting))
    if drafting and not wish.forced:
        reasons.append(tr("If drafting does not pay, the target decodes alone for a while."))
    if context < target.max_positions and wish.context is None:
        cut = tr("The context is cut to {context} tokens to fit the free memory.")
        reasons.append(cut.format(context=context))
    return tuple(reasons)


def _who_drafts(target: ModelFacts, draft: ModelFacts | None, wish: Wish, drafting: bool) -> str:
    if target.other_family:
        return caveat(target)
    if not drafting and wish.mode is Mode.PLAIN:
        return tr("The target decodes alone, because you asked for plain decoding.")
    if not drafting:
        return tr("The target decodes alone, because no draft was chosen.")
    if draft and wish.lookup:
        both = tr("{draft} and the conversation itself (lookup) propose tokens.")
        return both.format(draft=draft.name)
    if draft:
        return tr("{draft} proposes tokens.").format(draft=draft.name)
    return tr("The conversation itself (lookup) proposes tokens.")
