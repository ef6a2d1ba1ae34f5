"""`duotail bench modes`: the model in every mode that runs here, as the window's benchmark."""

from __future__ import annotations

import argparse
from datetime import datetime
from importlib import metadata
from queue import SimpleQueue

from engine.bench.modes.report import (
    ComparisonReport,
    cells,
    facts,
    heads,
    markdown,
    notes,
    option_name,
    report,
    to_table,
)
from engine.cli.exit_code import ExitCode, on_interrupt
from engine.cli.loaded import error_of
from engine.cli.options import add_model_options, add_options, load_command, one_or_more
from engine.cli.output import show, show_progress, table
from engine.commands import Compare, Stop
from engine.errors import UserFixable
from engine.events import (
    Compared,
    CompareProgress,
    Event,
    Failed,
    MachineFound,
    PlanReady,
    Unloaded,
)
from engine.language import number, tr
from engine.machine.facts import Machine
from engine.service.engine import Engine


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser("modes", help=tr("measure a model in every mode that runs here"))
    add_model_options(parser)
    usual = Compare()
    add_options(parser, "--tokens", default=usual.tokens)
    parser.add_argument(
        "--runs",
        "--passes",
        dest="passes",
        type=one_or_more,
        default=usual.passes,
        metavar="N",
        help=tr("measure every mode this many times, in turns"),
    )
    parser.add_argument(
        "--markdown", action="store_true", help=tr("print Markdown to share instead of a table")
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print. Ctrl-C ends it early; what is known by then is printed all the same."""
    wish = Compare(passes=arguments.passes, tokens=arguments.tokens)
    bench = _Bench()
    try:
        made = bench.measure(arguments, wish)
    finally:
        bench.engine.close()
    lines = markdown(made).splitlines() if arguments.markdown else _table(made)
    show(arguments, to_table(made), lines)
    return ExitCode.DONE if made.complete else ExitCode.INTERRUPTED


class _Bench:
    """The engine, its events waited for in order."""

    def __init__(self) -> None:
        self._events: SimpleQueue[Event] = SimpleQueue()
        self.engine = Engine(self._events.put, sample_devices=False)
        self._machine: Machine | None = None
        self._failure: Failed | None = None

    def measure(self, arguments: argparse.Namespace, wish: Compare) -> ComparisonReport:
        load = load_command(arguments)
        self.engine.submit(load)
        ready = self._until(PlanReady, Unloaded)
        machine = self._machine
        if not isinstance(ready, PlanReady) or machine is None:
            raise self._error()
        with on_interrupt(lambda: self.engine.submit(Stop())):
            self.engine.submit(wish)
            compared = self._until(Compared)
        if not isinstance(compared, Compared) or not any(run.answers for run in compared.runs):
            raise self._error()
        try:
            version = metadata.version("duotail")
        except metadata.PackageNotFoundError:
            version = "development"
        now = datetime.now().replace(microsecond=0)  # noqa: DTZ005 - of where it was measured
        return report(compared, load, wish, ready.model_name, machine, version, now)

    def _until(self, *kinds: type[Event]) -> Event:
        while True:
            event = self._events.get()
            match event:
                case MachineFound(machine=machine):
                    self._machine = machine
                case Failed():
                    self._failure = event
                case CompareProgress():
                    _progress(event)
            if isinstance(event, kinds):
                return event

    def _error(self) -> UserFixable:
        """The engine's failure as an error."""
        if self._failure is not None:
            return error_of(self._failure)
        return UserFixable(
            tr("Nothing could be measured."), tr("Use a longer context or more tokens.")
        )


def _progress(event: CompareProgress) -> None:
    done = number(event.fraction, ".0%")
    show_progress(tr("{done} {mode}").format(done=done, mode=event.mode) + " ")


def _table(made: ComparisonReport) -> list[str]:
    rows = [cells(row, option_name(row)) for row in made.rows if row.tokens_per_s is not None]
    lines = [made.model, *facts(made), "", *table([heads(), *rows]), "", *notes(made.rows)]
    if made.winner is not None and not made.noisy:
        lines.append(tr("Best here: {mode}").format(mode=made.winner))
    return lines
