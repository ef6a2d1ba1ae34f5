"""`duotail bench`: measurements, also for users."""

from __future__ import annotations

import argparse

from engine.cli import (
    bench_answers,
    bench_forward,
    bench_modes,
    bench_round,
    bench_shapes,
)
from engine.language import tr


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("bench", help=tr("measure speed, acceptance or quality"))
    kinds = parser.add_subparsers(dest="kind", required=True)
    bench_answers.add_parsers(kinds)
    bench_forward.add_parsers(kinds)
    bench_round.add_parser(kinds)
    bench_shapes.add_parser(kinds)
    bench_modes.add_parser(kinds)
