"""`duotail bench formats`: what each type of weights costs."""

from __future__ import annotations

import argparse
import json
import sys

from engine.bench.formats import FormatCost, measure_formats
from engine.bench.recipes import UNIFORM
from engine.bench.shapes import shape
from engine.cli.columns import left, right
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options, one_or_more
from engine.language import listed, number, tr

SHAPE = "bench"
_WIDTH = 14


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser("formats", help=tr("measure memory and speed of every weight format"))
    parser.add_argument(
        "--shape",
        default=SHAPE,
        metavar="S",
        help=tr("random weights of a published shape, such as qwen2.5-1.5b"),
    )
    parser.add_argument(
        "--formats",
        type=_formats,
        default=tuple(UNIFORM),
        metavar="F,F",
        help=tr("weight formats to measure (default: all)"),
    )
    add_options(parser, "--threads")
    parser.add_argument(
        "--runs", type=one_or_more, default=5, metavar="N", help=tr("measure this many times")
    )
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    costs = measure_formats(
        shape(arguments.shape),
        arguments.formats,
        threads=arguments.threads,
        runs=arguments.runs,
        progress=_progress,
    )
    if arguments.json:
        report = {"shape": arguments.shape, "formats": {k: _row(c) for k, c in costs.items()}}
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_table(costs))
    return ExitCode.DONE


def _row(cost: FormatCost) -> dict[str, float | None]:
    """Differences, bytes, milliseconds, and GB (10^9 bytes) per second."""
    return {
        "max_error": cost.error,
        "bytes_per_weight": cost.bytes_per_weight,
        "ms_1": 1e3 * cost.seconds[1],
        "ms_8": 1e3 * cost.seconds[8],
        "ratio": cost.ratio,
        "gb_per_s": cost.bytes_per_s / 1e9,
    }


def _table(costs: dict[str, FormatCost]) -> str:
    head = [
        tr("error"),
        tr("bytes/weight"),
        tr("1 token, ms"),
        tr("8 tokens, ms"),
        tr("ratio"),
        tr("GB/s"),
    ]
    lines = [left(tr("format"), 8) + "".join(right(name, _WIDTH) for name in head)]
    for name, cost in costs.items():
        row = _row(cost)
        error = "-" if cost.error is None else number(cost.error, "g")
        cells = [error, *(number(row[key] or 0, ".3f") for key in list(row)[1:])]
        lines.append(left(name, 8) + "".join(right(cell, _WIDTH) for cell in cells))
    return "\n".join(lines) + "\n"


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done}/{total} ")
        sys.stderr.flush()


def _formats(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    if not set(chosen) <= set(UNIFORM):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not among {names}").format(text=text, names=listed(UNIFORM))
        )
    return tuple(dict.fromkeys(chosen))
