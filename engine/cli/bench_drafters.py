"""`duotail bench drafters`: everything that can draft for a model, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from engine.bench.drafters import (
    PLAIN,
    Figures,
    Fixed,
    Way,
    draft_cost,
    figures,
    measure_ways,
    ways_of,
)
from engine.bench.prompts import first_of_each_category, read_prompts
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_sampling_options, one_or_more, sampling
from engine.columns import left, right
from engine.commands import Load
from engine.errors import UserFixable
from engine.hub.local import resolve_model
from engine.language import number, tr
from engine.loading.checking import check
from engine.loading.load import LoadedPair, load
from engine.loading.machinery import Machinery

_MAX_TOKENS = 128


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser("drafters", help=tr("all that can draft for a model, side by side"))
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("target (default: the starter model)")
    )
    parser.add_argument(
        "--draft", dest="drafts", action="append", required=True, metavar="NAME|PATH",
        help=tr("a draft of the model; may be given several times"),
    )  # fmt: skip
    add_sampling_options(parser)
    parser.add_argument("--prompts", type=Path, required=True, metavar="FILE.jsonl")
    parser.add_argument("--limit", type=one_or_more, metavar="N", help=tr("prompts per category"))
    parser.add_argument(
        "--repeat", type=one_or_more, default=3, metavar="N", help=tr("runs each way")
    )
    parser.add_argument(
        "--depth", type=one_or_more, metavar="N",
        help=tr("draft chains of N tokens in every round (default: as the controller likes)"),
    )  # fmt: skip
    parser.add_argument(
        "--width", type=one_or_more, default=1, metavar="N",
        help=tr("with --depth: trees, that many tokens wide"),
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help=tr("one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    prompts = first_of_each_category(read_prompts(arguments.prompts), arguments.limit)
    fixed = None if arguments.depth is None else Fixed(arguments.depth, arguments.width)
    ways = ways_of(_pairs(arguments), fixed)
    measure_ways(
        ways,
        prompts,
        sampling(arguments),
        max_tokens=arguments.max_tokens or _MAX_TOKENS,
        repeat=arguments.repeat,
        progress=_progress,
    )
    found = figures(ways)
    if not found:
        raise UserFixable(
            tr("None of the prompts could be measured."),
            tr("Use shorter prompts, a longer context or more tokens."),
        )
    costs = {name: draft_cost(way, found["all"][PLAIN]) for name, way in ways.items()}
    ended = sum(one.ended for one in ways[PLAIN].results) / len(ways[PLAIN].results)
    if arguments.json:
        report = {
            "figures": {
                category: {name: asdict(row) for name, row in rows.items()}
                for category, rows in found.items()
            },
            "draft_costs": costs,
            "ended": ended,
        }
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_tables(found, ways, costs))
    return ExitCode.DONE


def _pairs(arguments: argparse.Namespace) -> list[tuple[str, LoadedPair]]:
    machinery = Machinery()
    machine = machinery.look(None)
    speeds = machinery.speeds(machine)
    target, pairs = resolve_model(arguments.model), []
    for name in arguments.drafts:
        command = Load(target, draft=resolve_model(name))
        pairs.append((Path(name).stem, load(check(command, machine, speeds), machinery.open)))
    return pairs


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + tr("{done}/{total} prompts").format(done=done, total=total) + " ")
        sys.stderr.flush()


def _tables(
    found: dict[str, dict[str, Figures]], ways: dict[str, Way], costs: dict[str, float | None]
) -> str:
    """Acceptance length by category, then speed over everything."""
    names = [name for name in ways if name != PLAIN]
    width = max(map(len, names)) + 2
    lines = [left(tr("accept. length"), 16) + "".join(right(name, width) for name in names)]
    for category, rows in found.items():
        cells = [_or_dash(rows[name].acceptance_length, ".2f") for name in names]
        lines.append(left(category, 16) + "".join(right(cell, width) for cell in cells))
    head = ("tok/s", tr("speed-up"), "c", tr("exact"))
    lines += ["", left("", width) + "".join(right(name, 10) for name in head)]
    for name, row in found["all"].items():
        cells = [
            number(row.tokens_per_s, ".1f"),
            number(row.speedup, ".2f") + "x",
            _or_dash(costs[name], ".3f"),
            tr("yes") if row.exact else tr("NO"),
        ]
        lines.append(left(name, width) + "".join(right(cell, 10) for cell in cells))
    return "\n".join(lines) + "\n"


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else number(value, spec)
