"""The report of a comparison, with all that others need to judge it: to keep, print and share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from engine.commands import ALL_LAYERS, Compare, DraftChoice, Load, Mode, WeightFormat
from engine.events import Compared, ModeRun, PlanSummary
from engine.machine.facts import CPU, Machine

GIB = 2**30


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
    """

    model: str
    hardware: Hardware
    version: str
    command: str
    at: str
    rows: tuple[ModeRow, ...]
    complete: bool = True
    winner: Mode | None = None

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
    )


def rows_of(runs: Sequence[ModeRun]) -> tuple[ModeRow, ...]:
    """The runs, each beside the target alone."""
    plain = next((run.tokens_per_s for run in runs if _alone(run)), None)
    return tuple(_row(run, plain) for run in runs)


def command_line(load: Load, wish: Compare) -> str:
    """Return the command that measures the same, without folders: their names are private."""
    words = ["duotail", "bench", "modes", "--model", _quoted(load.model.name)]
    if load.draft is not DraftChoice.AUTO:
        chosen = load.draft
        words += [
            "--draft",
            str(chosen if isinstance(chosen, DraftChoice) else _quoted(chosen.name)),
        ]
    if load.mode is not Mode.AUTO:
        words += ["--mode", str(load.mode)]
    if load.context is not None:
        words += ["--context", str(load.context)]
    if load.weights is not WeightFormat.AUTO:
        words += ["--format", str(load.weights)]
    for option, nbytes in (("--vram", load.vram), ("--simulate-gpu", load.simulate_gpu)):
        words += [] if nbytes is None else [option, f"{nbytes / GIB:g}"]
    if load.layers_on_gpu is not None:
        layers = load.layers_on_gpu
        words += ["--layers-on-gpu", "all" if layers == ALL_LAYERS else str(layers)]
    usual = Compare()
    if wish.passes != usual.passes:
        words += ["--passes", str(wish.passes)]
    if wish.tokens != usual.tokens:
        words += ["--tokens", str(wish.tokens)]
    return " ".join(words)


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


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
