"""A plan, the memory it takes and earlier loads of its model, as `--json` and tables show them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from engine.cli.output import table
from engine.devices.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates
from engine.language import number, tr
from engine.language.units import gibibytes, memory
from engine.machine.memory import DeviceMemory
from engine.plan.plan import Plan

PURPOSES = ("target", "draft", "kv", "features", "workspace", "runtime")
"""Purposes of memory: fields of `DeviceMemory`, in the order of tables."""
MOST_LOADS = 3
_GIB = 2**30


def plan_report(plan: Plan) -> dict[str, object]:
    """Return the placement that the planner chose, and its reasons."""
    return {
        "mode": plan.mode,
        "layers_on_gpu": plan.layers_on_gpu,
        "target": [
            {
                "device": share.device,
                "blocks": [share.blocks.start, share.blocks.stop],
                "embeds": share.embeds,
                "heads": share.heads,
            }
            for share in plan.target
        ],
        "draft_device": plan.draft_device if plan.draft is not None else None,
        "context": plan.context,
        "depth": plan.depth,
        "knee": plan.knee,
        "reasons": list(plan.reasons),
    }


def memory_report(found: DeviceMemory) -> dict[str, int]:
    """Return the bytes by purpose, and their total."""
    return {name: getattr(found, name) for name in PURPOSES} | {"total": found.total}


# ---- earlier loads of the model ---------------------------------------------------------------


def estimate_report(known: ModelEstimates | None) -> dict[str, object] | None:
    """Return what `plan --json` tells of earlier loads; None where there were none. In bytes."""
    if known is None:
        return None
    return {
        "typical_error": known.typical_error,
        "loads": [
            {
                "at": load.at,
                "mode": load.mode,
                "context": load.context,
                "answers": load.answers,
                "error": load.error,
                "devices": {each.device: _device(each) for each in load.devices},
            }
            for load in known.loads
        ],
    }


def _device(each: DeviceEstimate) -> dict[str, object]:
    return {
        "predicted": memory_report(each.predicted),
        "held": memory_report(each.held),
        "touched": each.touched,
        "system": each.system,
    }


def estimate_lines(known: ModelEstimates | None) -> Iterator[str]:
    """Return lines about earlier loads for people; none where there were none."""
    if known is None or not known.loads:
        return
    yield ""
    if known.typical_error is not None:
        said = tr("Half of the estimates for this model are off by less than {share}.")
        yield said.format(share=number(known.typical_error, ".1%"))
    heads = tr("predicted"), tr("allocated"), tr("difference"), tr("system")
    rows = [row for load in known.loads[:MOST_LOADS] for row in _load(load)]
    yield from table([(tr("earlier loads"), *heads), *rows])


def _load(load: LoadEstimate) -> Iterator[tuple[str, ...]]:
    when = f"{datetime.fromtimestamp(load.at).astimezone():%Y-%m-%d %H:%M} {load.mode}"
    for each in load.devices:
        sizes = each.predicted.total, each.held.total, each.system
        yield f"{when} {each.device}", *_sizes(*sizes)
        for name in PURPOSES:
            predicted, held = getattr(each.predicted, name), getattr(each.held, name)
            if predicted or held:
                yield f"  {name}", *_sizes(predicted, held, None)


def _sizes(predicted: int, held: int, system: int | None) -> tuple[str, ...]:
    """Return the cells of a row: predicted, held, their difference, and the system's count."""
    difference = _share(predicted / held - 1) if held else ""
    return _size(predicted), _size(held), difference, "" if system is None else _size(system)


def _share(value: float) -> str:
    return number(value, "+.1%") if abs(value) >= 0.0005 else number(0, ".1%")


def _size(nbytes: int) -> str:
    return memory(nbytes) if nbytes < _GIB / 10 else gibibytes(nbytes / _GIB, ".2f")
