"""What plans for a model said of its memory before, and what it held: a table, an object."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from engine.columns import left, right
from engine.hardware.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates
from engine.language import number, tr
from engine.machine.memory import DeviceMemory
from engine.units import gibibytes, memory

MOST_LOADS = 3
_GIB = 2**30
_NAME, _CELL = 40, 13
_PURPOSES = ("target", "draft", "kv", "features", "workspace", "runtime")


def estimate_report(known: ModelEstimates | None) -> dict[str, object] | None:
    """What `--json` prints; bytes. None: this model was never loaded here."""
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
        "corrections": {},  # of earlier versions, whose plans were corrected by these loads
    }


def _device(each: DeviceEstimate) -> dict[str, object]:
    return {
        "predicted": _purposes(each.predicted),
        "held": _purposes(each.held),
        "touched": each.touched,
        "system": each.system,
    }


def _purposes(found: DeviceMemory) -> dict[str, int]:
    return {name: getattr(found, name) for name in _PURPOSES} | {"total": found.total}


def estimate_lines(known: ModelEstimates | None) -> Iterator[str]:
    """The same for people; nothing where nothing is known."""
    if known is None or not known.loads:
        return
    yield ""
    if known.typical_error is not None:
        said = tr("Estimates for this model are typically off by {share}.")
        yield said.format(share=number(known.typical_error, ".1%"))
    heads = tr("predicted"), tr("held"), tr("difference"), tr("system")
    yield left(tr("loaded before"), _NAME) + "".join(right(head, _CELL) for head in heads)
    for load in known.loads[:MOST_LOADS]:
        yield from _load(load)


def _load(load: LoadEstimate) -> Iterator[str]:
    when = f"{datetime.fromtimestamp(load.at).astimezone():%Y-%m-%d %H:%M} {load.mode}"
    for each in load.devices:
        yield left(f"{when} {each.device}", _NAME) + _row(
            each.predicted.total, each.held.total, each.system
        )
        for name in _PURPOSES:
            predicted, held = getattr(each.predicted, name), getattr(each.held, name)
            if predicted or held:
                yield left(f"  {name}", _NAME) + _row(predicted, held, None)


def _row(predicted: int, held: int, system: int | None) -> str:
    difference = _share(predicted / held - 1) if held else ""
    cells = _size(predicted), _size(held), difference, "" if system is None else _size(system)
    return "".join(right(cell, _CELL) for cell in cells)


def _share(value: float) -> str:
    return number(value, "+.1%") if abs(value) >= 0.0005 else number(0, ".1%")


def _size(nbytes: int) -> str:
    return memory(nbytes) if nbytes < _GIB / 10 else gibibytes(nbytes / _GIB, ".2f")
