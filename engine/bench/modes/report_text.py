"""A report as a text to share, and as a table of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from engine.bench.modes.report import ComparisonReport, Hardware, ModeRow
from engine.commands import Mode
from engine.devices.typed_json import decoded, encoded
from engine.language import listed, number, tr
from engine.language.units import duration, gibibytes, memory

_NONE = "-"


def heads() -> list[str]:
    """Return the titles of the columns of `cells`."""
    return [
        tr("Mode"),
        tr("tokens/s"),
        tr("lowest - highest"),
        tr("target alone = 1"),
        tr("first token"),
        tr("accepted"),
        tr("on the GPU"),
    ]


def cells(row: ModeRow, name: str) -> list[str]:
    """The values of a measured mode in words."""
    return [
        name,
        _figure(row.tokens_per_s, ".1f"),
        spread(row),
        f"{_figure(row.relative, '.2f')}x" if row.relative is not None else _NONE,
        _NONE if row.ttft_s is None else duration(row.ttft_s),
        _figure(row.acceptance_length, ".2f"),
        memory(row.gpu_bytes) if row.gpu_bytes else _NONE,
    ]


def spread(row: ModeRow) -> str:
    """The slowest and the fastest answer."""
    if row.lowest is None or row.highest is None:
        return _NONE
    return f"{number(row.lowest, '.1f')} - {number(row.highest, '.1f')}"


def option_name(row: ModeRow) -> str:
    """The mode as `--mode` calls it, with what came of the automatic choice."""
    if row.mode is Mode.AUTO and row.ran is not None:
        return f"auto ({row.ran})"
    return str(row.mode)


def notes(rows: Sequence[ModeRow]) -> list[str]:
    """Return sentences on why the other modes have no numbers."""
    alike = tr("{mode}: the same as {other}.")
    not_here = tr("{mode}: {reason}")
    short = tr("{mode}: the answers were too short to tell a speed.")
    said = []
    for row in rows:
        if row.same_as is not None:
            said.append(alike.format(mode=row.mode, other=row.same_as))
        elif row.refusal:
            said.append(not_here.format(mode=row.mode, reason=row.refusal))
        elif row.tokens_per_s is None:
            said.append(short.format(mode=row.mode))
    return said


def hardware_words(hardware: Hardware) -> str:
    """The machine in a line."""
    cores = tr("{name}, {cores} cores, {memory}").format(
        name=hardware.processor or tr("unknown processor"),
        cores=number(hardware.cores),
        memory=gibibytes(hardware.memory, ".0f"),
    )
    cards = hardware.accelerators or (tr("no graphics card in use"),)
    if hardware.simulated:
        cards = (*cards, tr("SIMULATED: its speeds are declared, not those of a real card"))
    return listed([cores, *cards])


def markdown(report: ComparisonReport) -> str:
    """A text for a forum; nothing in it tells who measured."""
    measured = [row for row in report.rows if row.tokens_per_s is not None]
    lines = [tr("**Duotail: {model}, every mode measured**").format(model=report.model), ""]
    lines += [f"- {line}" for line in facts(report)]
    lines += ["", _line(heads()), _line(["---", *["---:"] * (len(heads()) - 1)])]
    lines += [_line(cells(row, _marked(row, report.winner))) for row in measured]
    said = notes(report.rows)
    lines += ["", *(f"- {note}" for note in said)] if said else []
    return "\n".join([*lines, "", f"`{report.command}`", ""])


def facts(report: ComparisonReport) -> list[str]:
    """Machine, weights, versions and how it was measured, a line each."""
    told = [hardware_words(report.hardware)]
    if report.signature:
        told.append(tr("weights and cache: {signature}").format(signature=report.signature))
    draft = next((row.draft for row in report.rows if row.draft), None)
    if draft:
        told.append(tr("draft: {draft}").format(draft=draft))
    told.append(
        tr("Duotail {version}, measured {date}").format(version=report.version, date=report.at[:10])
    )
    told.append(tr("medians over the answers; greedy; each mode the same questions, in turns"))
    if not report.complete:
        told.append(tr("not complete: it was stopped or failed"))
    return told


def to_table(report: ComparisonReport) -> object:
    """Return the report as values that JSON can hold; `from_table` reads it."""
    return encoded(report)


def from_table(table: object) -> ComparisonReport:
    """Read what `to_table` wrote.

    Raises:
        ValueError: it is something else.
    """
    report = decoded(ComparisonReport, table, "report")
    datetime.fromisoformat(report.at)
    return report


def _marked(row: ModeRow, winner: Mode | None) -> str:
    return f"**{option_name(row)}**" if row.mode is winner else option_name(row)


def _figure(value: float | None, spec: str) -> str:
    return _NONE if value is None else number(value, spec)


def _line(values: Sequence[str]) -> str:
    return f"| {' | '.join(values)} |"
