"""Predicted and held memory, in rows of texts. No Qt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from app.engine_link.plan_texts import mode_name
from app.shell.memory_devices import Shown, part_of
from app.shell.memory_texts import name_of, part_name
from app.widgets.memory_parts import OURS, MemoryPart
from app.widgets.table import Row, Table
from engine.events import DeviceHeld
from engine.language import later, number, tr, tr_count
from engine.language.units import gibibytes
from engine.machine.facts import CPU
from engine.machine.memory import DeviceMemory

if TYPE_CHECKING:
    from engine.devices.kept_estimates import DeviceEstimate, LoadEstimate, ModelEstimates

MEMORY, WHAT_FOR = later("Memory"), later("Purpose")
LOADED, MODEL, MODE = later("Loaded"), later("Model"), later("Mode")
"""Columns of names; texts for `tr`."""
NOTHING = "\N{EN DASH}"
_GIB = 2**30


def of_held(all_shown: Sequence[Shown]) -> Table:
    """The model in memory: by device and purpose, as planned and as it is."""
    columns = tr(MEMORY), tr(WHAT_FOR), tr("Predicted"), tr("Allocated"), tr("Difference")
    rows = tuple(row for shown in all_shown for row in _rows(shown))
    return Table(tr("The model in memory"), columns, rows)


def _rows(shown: Shown) -> Iterator[Row]:
    held = shown.held
    if held is None:
        return
    planned, now = _planned(held.predicted), _now(held)
    for part in OURS:
        if planned[part] or now[part]:
            yield (
                name_of(shown),
                tr(part.value) if shown.is_host else part_name(shown, part),
                exact(planned[part]),
                exact(now[part]),
                _difference(part, planned[part], now[part]),
            )
    told, whole = sum(planned.values()), sum(now.values())
    difference = _difference(MemoryPart.TARGET, told, whole)
    if (
        planned[MemoryPart.KEPT] and now[MemoryPart.KEPT] > planned[MemoryPart.KEPT]
    ):  # more than was planned for
        difference = NOTHING
    yield name_of(shown), tr("Total"), exact(told), exact(whole), difference


def _planned(predicted: DeviceMemory | None) -> dict[MemoryPart, int]:
    found = dict.fromkeys(OURS, 0)
    if predicted is not None:
        found[MemoryPart.TARGET], found[MemoryPart.DRAFT] = predicted.target, predicted.draft
        found[MemoryPart.KEPT] = predicted.kv + predicted.features
        found[MemoryPart.WORK], found[MemoryPart.RUNTIME] = predicted.workspace, predicted.runtime
    return found


def _now(held: DeviceHeld) -> dict[MemoryPart, int]:
    found = dict.fromkeys(OURS, 0)
    for line in held.lines:
        found[part_of(line.owner, line.purpose)] += line.nbytes
    return found


def _difference(part: MemoryPart, predicted: int, held: int) -> str:
    """Keys are planned for one conversation; others stay as long as there is room."""
    if part is MemoryPart.KEPT and predicted and held > predicted:
        return tr_count("{n} conversation", "{n} conversations", max(round(held / predicted), 1))
    if not held:
        return NOTHING
    return share(predicted / held - 1)


def exact(nbytes: int) -> str:
    """Bytes so finely that a small difference can be seen."""
    if nbytes < _GIB / 10:
        return (
            tr("{n} MiB").format(n=number(nbytes / 2**20, ".1f")).replace(" ", "\N{NO-BREAK SPACE}")
        )
    return gibibytes(nbytes / _GIB, ".2f")


def share(value: float) -> str:
    """A difference with its sign."""
    return number(value, "+.1%") if abs(value) >= 0.0005 else number(0, ".1%")


def of_loads(kept: Sequence[ModelEstimates]) -> Table:
    """All loads that are remembered, the newest first."""
    columns = (
        *(tr(LOADED), tr(MODEL), tr(MODE), tr(MEMORY), tr("Context")),
        *(tr("Predicted"), tr("Allocated"), tr("Difference"), tr("System")),
    )
    loads = [(load, models) for models in kept for load in models.loads]
    loads.sort(key=lambda each: -each[0].at)
    rows = tuple(_load(models, load, each) for load, models in loads for each in load.devices)
    return Table(tr("Earlier loads"), columns, rows)


def _load(models: ModelEstimates, load: LoadEstimate, each: DeviceEstimate) -> Row:
    held = each.held.total
    return (
        f"{datetime.fromtimestamp(load.at).astimezone():%Y-%m-%d %H:%M}",
        models.target,
        mode_name(load.mode),
        _device_name(each),
        number(load.context),
        exact(each.predicted.total),
        exact(held),
        share(each.predicted.total / held - 1) if held else NOTHING,
        NOTHING if each.system is None else exact(each.system),
    )


def _device_name(each: DeviceEstimate) -> str:
    """Return the name in today's language: what was kept may be in another one."""
    if each.device == CPU:
        return tr("Memory of this computer")
    simulated = each.device.startswith("simulated:")
    return tr("Simulated GPU") if simulated else each.name


def _pair(models: ModelEstimates) -> str:
    """Return the name of a target, with that of its draft where it had one."""
    if not models.draft:
        return models.target
    return tr("{model} with {draft}").format(model=models.target, draft=models.draft)


def typical_errors(kept: Sequence[ModelEstimates]) -> list[str]:
    """Return how far estimates are off, in a sentence for each pair that has answered."""
    said = tr("{model}: half of the estimates are off by less than {share}, the worst by {most}.")
    return [
        said.format(
            model=_pair(models),
            share=number(models.typical_error, ".1%"),
            most=number(models.largest_error, ".1%"),
        )
        for models in kept
        if models.typical_error is not None
    ]
