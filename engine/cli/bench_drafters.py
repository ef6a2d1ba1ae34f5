"""`duotail bench drafters`: everything that can draft for a model, side by side."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from engine.bench.harness import ALL, PLAIN, Figures, figures
from engine.bench.pair_writer import Fixed, LookupUse, strategies_of
from engine.cli.bench_prompts import (
    add_prompt_options,
    chosen_prompts,
    measured_prompts,
    or_dash,
)
from engine.cli.columns import left, right, width
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options, one_or_more, sampling
from engine.commands import DraftChoice, Load
from engine.hub.local import resolve_model
from engine.language import number, tr
from engine.loading.devices import DeviceManager
from engine.loading.load import LoadedPair, load
from engine.loading.planned_load import plan_load


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser("drafters", help=tr("compare drafts of one model"))
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("the target model (default: the starter model)")
    )
    parser.add_argument(
        "--draft", dest="drafts", action="append", required=True, metavar="NAME|PATH|lookup",
        help=tr("a draft to compare; may be given several times"),
    )  # fmt: skip
    parser.add_argument(
        "--lookup", type=LookupUse, choices=[*LookupUse], default=LookupUse.BOTH,
        help=tr("measure drafts with lookup, without it, or both (default)"),
    )  # fmt: skip
    add_prompt_options(parser, repeat=3)
    parser.add_argument(
        "--depth", type=_budget, action="append", metavar="auto|N|NxW",
        help=tr(
            "draft chains of N tokens, or trees of N levels and W tokens a level (default: auto, "
            "the controller chooses every round); may be given several times"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--width", type=one_or_more, default=1, metavar="N",
        help=tr("width of every --depth that names none"),
    )  # fmt: skip
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    prompts, params = chosen_prompts(arguments), sampling(arguments)
    budgets = [_widened(each, arguments.width) for each in arguments.depth or [None]]
    strategies = strategies_of(_pairs(arguments), budgets, arguments.lookup)
    measured = measured_prompts(strategies, prompts, params, arguments)
    found = figures(strategies, measured)
    if arguments.json:
        plain = [runs[0].ended for runs in strategies[PLAIN].answers]
        report = {
            "figures": {
                category: {name: asdict(row) for name, row in rows.items()}
                for category, rows in found.items()
            },
            "draft_costs": {name: row.c for name, row in found[ALL].items()},
            "ended": sum(plain) / len(plain),
            "skipped": len(prompts) - len(measured),
        }
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_tables(found))
    return ExitCode.DONE


def _budget(text: str) -> Fixed | None:
    """Parse `--depth`; None: the controller's."""
    if text == "auto":
        return None
    depth, times, wide = text.partition("x")
    return Fixed(one_or_more(depth), one_or_more(wide) if times else 1)


def _widened(budget: Fixed | None, wide: int) -> Fixed | None:
    return replace(budget, width=wide) if budget and budget.width == 1 else budget


def _pairs(arguments: argparse.Namespace) -> list[tuple[str, LoadedPair]]:
    manager = DeviceManager()
    machine = manager.look(None)
    speeds = manager.speeds(machine)
    target, pairs = resolve_model(arguments.model), []
    for name, said in zip(_names(arguments.drafts), arguments.drafts, strict=True):
        draft = DraftChoice.LOOKUP if said == DraftChoice.LOOKUP else resolve_model(said)
        command = Load(target, draft=draft)
        pairs.append((name, load(plan_load(command, machine, speeds), manager.open)))
    return pairs


def _names(drafts: Sequence[str]) -> list[str]:
    """The last part of each path, where no other draft has the same."""
    short = [Path(said).name.removesuffix(".gguf") or said for said in drafts]
    return [
        name if short.count(name) == 1 else said for name, said in zip(short, drafts, strict=True)
    ]


def _tables(found: dict[str, dict[str, Figures]]) -> str:
    """The strategies by speed, and the speed-up of each by category under its rank."""
    names = sorted(found[ALL], key=lambda name: -found[ALL][name].speedup)
    heads = (
        "tok/s",
        tr("speed-up"),
        tr("in total"),
        tr("accept. length"),
        tr("drafted"),
        "c",
        tr("draft"),
        tr("verify"),
        tr("rest"),
        tr("exact"),
    )
    wide = max(map(width, names)) + 5
    lines = [left("", wide) + "".join(right(head, max(width(head) + 2, 9)) for head in heads)]
    for rank, name in enumerate(names, 1):
        cells = zip(_cells(found[ALL][name]), heads, strict=True)
        shown = [right(cell, max(width(head) + 2, 9)) for cell, head in cells]
        lines.append(left(f"{rank:2} {name}", wide) + "".join(shown))
    ranks = "".join(right(str(rank), 6) for rank in range(1, len(names) + 1))
    lines += ["", left(tr("speed-up"), 16) + ranks]
    for category, rows in found.items():
        speeds = [right(number(rows[name].speedup, ".2f"), 6) for name in names]
        lines.append(left(category, 16) + "".join(speeds))
    return "\n".join(lines) + "\n"


def _cells(row: Figures) -> list[str]:
    return [
        number(row.tokens_per_s, ".1f"),
        number(row.speedup, ".2f") + "x",
        number(row.total_speedup, ".2f") + "x",
        or_dash(row.acceptance_length, ".2f"),
        or_dash(row.drafted_per_round, ".1f"),
        or_dash(row.c, ".3f"),
        number(row.draft_share, ".0%"),
        number(row.verify_share, ".0%"),
        number(row.rest_share, ".0%"),
        tr("yes") if row.exact else tr("NO"),
    ]
