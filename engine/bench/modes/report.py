"""The report of a comparison, with all that others need to judge it: a text and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from engine.commands import Compare, Load, Mode
from engine.events import Compared, ModeRun, PlanSummary
from engine.language import listed, number, tr
from engine.language.units import duration, gibibytes, memory, tokens_per_s
from engine.machine.facts import CPU, Machine
from engine.typed_json import decoded, encoded

GIB = 2**30
_NONE = "-"


@dataclass(frozen=True, slots=True)
class ModeRow:
    """One mode.

    Attributes:
        ran: what came of it, where it was the automatic choice.
        relative: its speed, measured in that of the target alone.
        gpu_bytes: what its plan holds on an accelerator.
        placed: where the target lies: the device, and how many of its layers are on a GPU.
    """

    mode: Mode
    ran: Mode | None = None
    tokens_per_s: float | None = None
    lowest: float | None = None
    highest: float | None = None
    relative: float | None = None
    ttft_s: float | None = None
    acceptance_length: float | None = None
    answers: int = 0
    draft: str | None = None
    placed: str = ""
    layers: int = 0
    layers_on_gpu: int = 0
    gpu_bytes: int = 0
    signature: str = ""
    refusal: str = ""
    same_as: Mode | None = None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine as far as speeds depend on it, in words that name nobody.

    Attributes:
        accelerators: the usable ones.
    """

    processor: str
    cores: int
    memory: int
    accelerators: tuple[str, ...] = ()
    simulated: bool = False

    @classmethod
    def of(cls, machine: Machine) -> Hardware:
        """Return the facts; memory in whole GiB, because the rest differs from start to start."""
        host, usable = machine.host, machine.usable
        return cls(
            processor=host.name,
            cores=host.cores,
            memory=round(host.memory_total / GIB),
            accelerators=tuple(found.name for found in usable),
            simulated=any(found.simulated for found in usable),
        )


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """A comparison.

    Attributes:
        model: its name.
        command: what measures the same on a terminal.
        at: when, in local time, as in "2026-11-22T18:30:00".
        rows: in the order in which modes are offered.
        complete: whether every mode had all its turns.
        winner: the mode to use.
        noisy: the speeds lie too far apart to tell the fastest mode.
    """

    model: str
    hardware: Hardware
    version: str
    command: str
    at: str
    rows: tuple[ModeRow, ...]
    complete: bool = True
    winner: Mode | None = None
    noisy: bool = False

    @property
    def signature(self) -> str:
        """Numeric signature of what was measured; empty where nothing was."""
        return next((row.signature for row in self.rows if row.signature), "")

    @property
    def plain(self) -> ModeRow | None:
        """The target alone, if it was measured."""
        return _plain(self.rows)

    @property
    def best(self) -> ModeRow | None:
        """The winner's row."""
        return next((row for row in self.rows if row.mode is self.winner), None)


def report(
    compared: Compared,
    load: Load,
    wish: Compare,
    name: str,
    machine: Machine,
    version: str,
    at: datetime,
) -> ComparisonReport:
    """Put together what was measured.

    Args:
        compared: the measurement.
        load: how the model runs otherwise.
        wish: what was asked for.
        name: of the model.
        machine: where it was.
        version: of this program.
        at: when.
    """
    return ComparisonReport(
        model=name,
        hardware=Hardware.of(machine),
        version=version,
        command=command_line(load, wish),
        at=at.isoformat(timespec="seconds"),
        rows=rows_of(compared.runs),
        complete=compared.complete,
        winner=compared.winner,
        noisy=compared.noisy,
    )


def rows_of(runs: Sequence[ModeRun]) -> tuple[ModeRow, ...]:
    """The runs, each beside the target alone."""
    plain = next((run.tokens_per_s for run in runs if _alone(run)), None)
    return tuple(_row(run, plain) for run in runs)


def command_line(load: Load, wish: Compare) -> str:
    """Return the command that measures the same, without folders: their names are private."""
    if isinstance(load.draft, Path):
        load = replace(load, draft=Path(load.draft.name))
    words = ["duotail", "bench", "modes", "--model", load.model.name, *load.options]
    usual = Compare()
    if wish.passes != usual.passes:
        words += ["--passes", str(wish.passes)]
    if wish.tokens != usual.tokens:
        words += ["--tokens", str(wish.tokens)]
    return " ".join(f'"{word}"' if " " in word else word for word in words)


def _row(run: ModeRun, plain: float | None) -> ModeRow:
    speed, plan = run.tokens_per_s, run.plan
    known = ModeRow(
        mode=run.mode,
        tokens_per_s=speed,
        lowest=run.lowest,
        highest=run.highest,
        relative=speed / plain if speed is not None and plain else None,
        ttft_s=run.ttft_s,
        acceptance_length=run.acceptance_length,
        answers=run.answers,
        refusal=run.refusal,
        same_as=run.same_as,
    )
    return known if plan is None else _with_plan(known, plan)


def _with_plan(row: ModeRow, plan: PlanSummary) -> ModeRow:
    return replace(
        row,
        ran=plan.mode,
        draft=plan.draft,
        placed=plan.target_device,
        layers=plan.layers,
        layers_on_gpu=plan.layers_on_gpu,
        gpu_bytes=sum(held.total for held in plan.memory if held.device != CPU),
        signature=plan.signature,
    )


def _alone(run: ModeRun) -> bool:
    """True where the target ran alone, if only because nothing else was thought to pay."""
    measured = run.tokens_per_s is not None
    return measured and run.plan is not None and run.plan.mode is Mode.PLAIN


def _plain(rows: Sequence[ModeRow]) -> ModeRow | None:
    measured = (row for row in rows if row.tokens_per_s is not None)
    return next((row for row in measured if row.ran is Mode.PLAIN), None)


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
        _NONE if row.tokens_per_s is None else tokens_per_s(row.tokens_per_s),
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
    return f"{tokens_per_s(row.lowest)} - {tokens_per_s(row.highest)}"


def option_name(row: ModeRow) -> str:
    """The mode as `--mode` calls it, with what came of the automatic choice."""
    if row.mode is Mode.AUTO and row.ran is not None:
        return f"auto ({row.ran})"
    return str(row.mode)


def notes(rows: Sequence[ModeRow]) -> list[str]:
    """Return sentences on why the other modes have no numbers."""
    alike = tr("{mode}: the same as {other}.")
    not_here = tr("{mode}: {reason}")
    short = tr("{mode}: the answers were too short to measure a speed.")
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
    cards = hardware.accelerators or (tr("no GPU in use"),)
    if hardware.simulated:
        cards = (*cards, tr("SIMULATED: its speeds are declared, not those of a real GPU"))
    return listed([cores, *cards])


def markdown(report: ComparisonReport) -> str:
    """A text for a forum; nothing in it tells who measured."""
    measured = [row for row in report.rows if row.tokens_per_s is not None]
    lines = [tr("**Duotail: {model}, every mode measured**").format(model=report.model), ""]
    lines += [f"- {line}" for line in facts(report)]
    lines += ["", _line(heads()), _line(["---", *["---:"] * (len(heads()) - 1)])]
    best = None if report.noisy else report.winner
    lines += [_line(cells(row, _marked(row, best))) for row in measured]
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
    if report.noisy:
        told.append(tr("too noisy to tell the fastest mode, measured twice"))
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
