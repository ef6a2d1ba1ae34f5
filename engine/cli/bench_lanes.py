"""`duotail bench lanes`: drafting beside verifying in virtual time, for all costs and chances."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

from engine.bench.lanes.planned import module
from engine.bench.lanes.table import (
    BREADTHS,
    COSTS,
    FIRST,
    SECOND,
    TOKENS,
    Cell,
    compare,
)
from engine.cli.exit_code import ExitCode
from engine.cli.options import one_or_more, probability
from engine.columns import left, right
from engine.language import number, tr

_NAME, _CELL = 12, 16
_SURE = 2.0
"""So many standard errors are no accident."""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "lanes", help=tr("simulate DuoDecoding in virtual time and compare with the paper")
    )
    for option, default, said in (
        ("--acceptance", FIRST, tr("probability that a drafted token is accepted")),
        (
            "--second",
            SECOND,
            tr("probability that the second choice is accepted where the first is rejected"),
        ),
        ("--cost", COSTS, tr("time of a drafting step, as a share of a verification")),
        (
            "--breadth",
            BREADTHS,
            tr("time of a further node in a drafting step, as a share of the step"),
        ),
    ):
        parser.add_argument(option, type=_shares, default=default, metavar="X,...", help=said)
    parser.add_argument(
        "--tokens",
        type=one_or_more,
        default=TOKENS,
        metavar="N",
        help=tr("simulate this many tokens for every combination"),
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help=tr("seed of the random numbers")
    )
    parser.add_argument(
        "--for-plans",
        action="store_true",
        help=tr("print the source of engine/plan/both_lanes.py instead of a table"),
    )
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Play and print."""
    if arguments.for_plans:
        sys.stdout.write(module())
        return ExitCode.DONE
    cells = [
        *compare(
            arguments.acceptance,
            arguments.second,
            arguments.cost,
            arguments.breadth,
            tokens=arguments.tokens,
            seed=arguments.seed,
        )
    ]
    if arguments.json:
        report = {
            "cells": [asdict(cell) for cell in cells],
            "slower_than_paper": sum(cell.over_paper < -_SURE for cell in cells),
            "slower_than_serial": sum(cell.over_serial < -_SURE for cell in cells),
        }
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_tables(cells))
    return ExitCode.DONE


def _tables(cells: Sequence[Cell]) -> str:
    """One for every second choice and breadth; rows are chances, columns costs."""
    lines = [
        tr("Speed over plain decoding: the paper's machine / chains in turns / both at once"),
        tr("(!: slower than one of the others by more than two standard errors)"),
    ]
    for (second, breadth), table in groupby(cells, lambda cell: (cell.second, cell.breadth)):
        rows = [[*row] for _, row in groupby(table, lambda cell: cell.first)]
        said = tr("second choice {second}, breadth {breadth}")
        lines += ["", said.format(second=number(second, "g"), breadth=number(breadth, "g"))]
        heads = (f"c={number(cell.cost, '.2f')}" for cell in rows[0])
        lines.append(left(tr("acceptance"), _NAME) + "".join(right(head, _CELL) for head in heads))
        for row in rows:
            name = left(number(row[0].first, ".2f"), _NAME)
            lines.append(name + "".join(right(_cell(cell), _CELL) for cell in row))
    return "\n".join(lines) + "\n"


def _cell(cell: Cell) -> str:
    speeds = (cell.paper, cell.serial, cell.ours)
    mark = "!" if min(cell.over_paper, cell.over_serial) < -_SURE else ""
    return mark + "/".join(number(speed, ".2f") for speed in speeds)


def _shares(text: str) -> tuple[float, ...]:
    return tuple(map(probability, dict.fromkeys(text.split(","))))
