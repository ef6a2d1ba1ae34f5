"""`duotail bench dovetail`: the paper's table on this machine, for drafts of known acceptance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict

from engine.bench.answers import Wishes
from engine.bench.dovetail import GIB, PAPER, PAPERS_SHAPE, CeilingRow, measure_rows, plan_rows
from engine.bench.drafts import NAMES, RandomPair
from engine.bench.random_model import DRAFT_FORMAT
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_hardware_option,
    gibibytes,
    known_machine,
    one_or_more,
    probability,
)
from engine.cli.plan_report import plan_report, use_report
from engine.columns import left, right
from engine.language import number, tr
from engine.units import gibibytes as in_gibibytes

DEPTH = 7
ROWS = (1, 2, 4, 8, 16, 32)
_NAME, _CELL = 30, 10


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "dovetail", help=tr("measure Dovetail, the draft on the GPU, under several VRAM budgets")
    )
    parser.add_argument(
        "--shape",
        default=PAPERS_SHAPE,
        metavar="S",
        help=tr("random weights of a published shape, such as qwen2.5-1.5b"),
    )
    parser.add_argument(
        "--acceptance",
        type=_probabilities,
        default=(0.6, 0.7, 0.8, 0.9),
        metavar="A,...",
        help=tr("probability that a drafted token is accepted"),
    )
    parser.add_argument(
        "--vram",
        type=_budgets,
        default=(3 * GIB, 7 * GIB),
        metavar="GIB,...",
        help=tr("VRAM budgets to measure, in GiB"),
    )
    parser.add_argument(
        "--draft",
        default="dgf-5",
        metavar=NAMES,
        help=tr("random draft: a published shape or a kind of feature head"),
    )
    for option, default, said in (
        ("--format", SHAPE_FORMAT, tr("weight format of the target")),
        ("--draft-format", DRAFT_FORMAT, tr("weight format of the draft")),
    ):
        parser.add_argument(option, default=default, choices=FORMATS, metavar="F", help=said)
    parser.add_argument(
        "--trees",
        action="store_true",
        help=tr("draft trees that hold the scripted chain, not the chain alone"),
    )
    parser.add_argument(
        "--depth",
        type=one_or_more,
        default=DEPTH,
        metavar="D",
        help=tr("also measure this fixed draft depth, beside the controller's choice"),
    )
    parser.add_argument(
        "--simulate-gpu",
        type=gibibytes,
        metavar="GIB",
        help=tr("simulate a GPU with this much memory, in GiB"),
    )
    add_hardware_option(parser)
    parser.add_argument(
        "--threads", type=one_or_more, metavar="N", help=tr("number of CPU threads")
    )
    parser.add_argument(
        "--tokens",
        type=one_or_more,
        default=64,
        metavar="N",
        help=tr("write this many tokens in every answer"),
    )
    parser.add_argument(
        "--runs",
        type=one_or_more,
        default=3,
        metavar="N",
        help=tr("measure this many answers in every mode"),
    )
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    pair = RandomPair.published(
        arguments.shape, arguments.format, arguments.draft, arguments.draft_format
    )
    acceptances = arguments.acceptance
    wishes = Wishes(
        tokens=max(arguments.tokens, 2),
        runs=arguments.runs,
        acceptance=sorted(acceptances)[len(acceptances) // 2],
        depths=(arguments.depth,),
        rows=ROWS,
        trees=arguments.trees,
    )
    known = known_machine(arguments.hardware, arguments.simulate_gpu)
    planned = plan_rows(known, pair, wishes, arguments.vram)
    rows = [
        *measure_rows(
            planned, pair, wishes, acceptances, known[0],
            threads=arguments.threads, progress=_progress,
        )
    ]  # fmt: skip
    if arguments.json:
        sys.stdout.write(json.dumps(report(rows, arguments.shape, wishes)) + "\n")
    else:
        sys.stdout.write(_table(rows, arguments.shape, acceptances))
    return ExitCode.DONE


def report(rows: Sequence[CeilingRow], shape: str, wishes: Wishes) -> dict[str, object]:
    """What `--json` prints; the first row is the CPU alone."""
    alone = rows[0].plain_tokens_per_s
    return {
        "plain_tokens_per_s": alone,
        "rows": [_row(row, shape, alone) for row in rows],
        "exact": all(row.exact for row in rows),
        "kept_to_budget": all(
            use.kept_to_budget for row in rows for use in row.memory.values()
        ),
        "trees": wishes.trees,
        "tokens": wishes.tokens,
        "runs": wishes.runs,
    }  # fmt: skip


def _row(row: CeilingRow, shape: str, alone: float) -> dict[str, object]:
    return {
        "vram": row.vram,
        "plan": plan_report(row.plan),
        "plain_tokens_per_s": row.plain_tokens_per_s,
        "acceptances": {
            acceptance: {
                "tokens_per_s": speed,
                "speedup_over_cpu": speed / alone if speed else None,
                "auto": asdict(drafted.auto) if drafted.auto else None,
                "depths": {depth: asdict(own) for depth, own in drafted.by_depth.items()},
            }
            for acceptance, drafted in row.drafted.items()
            for speed in [drafted.auto.tokens_per_s if drafted.auto else None]
        },
        "paper_tokens_per_s": _paper(row, shape),
        "t_verify_ms": {rows: 1e3 * seconds for rows, seconds in row.verify.items()},
        "t_draft_ms": None if row.level is None else 1e3 * row.level,
        "c": row.share,
        "exact": row.exact,
        "memory": {device: use_report(use) for device, use in row.memory.items()},
    }


def _paper(row: CeilingRow, shape: str) -> float | None:
    return PAPER.get(row.vram // GIB) if shape == PAPERS_SHAPE and not row.vram % GIB else None


def _table(rows: Sequence[CeilingRow], shape: str, acceptances: Sequence[float]) -> str:
    heads = [tr("alone"), *(number(each, ".2f") for each in acceptances), tr("the paper")]
    lines = [left(tr("tokens/s by acceptance"), _NAME) + _cells(heads)]
    for row in rows:
        paper = _paper(row, shape)
        drafted = [row.drafted.get(each) for each in acceptances]
        speeds = [each.auto.tokens_per_s if each and each.auto else None for each in drafted]
        every = [row.plain_tokens_per_s, *speeds, paper]
        cells = ["-" if speed is None else number(speed, ".2f") for speed in every]
        lines.append(left(_name(row), _NAME) + _cells(cells))
    lines += ["", left(tr("verification of n rows, ms"), _NAME) + _cells([*map(str, ROWS)])]
    for row in rows:
        times = [number(1e3 * row.verify[n], ".1f") for n in ROWS]
        line = left(_name(row), _NAME) + _cells(times)
        if row.level is not None and row.share is not None:
            said = tr("; drafting a level {time:.2f} ms, c = {share:.3f}")
            line += said.format(time=1e3 * row.level, share=row.share)
        lines.append(line)
    lines += ["", *(line for row in rows for line in _memory(row))]
    lines.append(tr("texts equal") if all(row.exact for row in rows) else tr("TEXTS DIFFER"))
    return "\n".join(lines) + "\n"


def _memory(row: CeilingRow) -> list[str]:
    """The most that was held where there is a budget of video memory."""
    lines = []
    for device, use in row.memory.items():
        if device == "cpu" or use.budget is None:
            continue
        said = tr("{name}: at most {peak} of {budget} held")
        if not use.kept_to_budget:
            said = tr("{name}: {peak} of {budget} held, WHICH IS TOO MUCH")
        peak, budget = (in_gibibytes(each / GIB) for each in (use.peak, use.budget))
        lines.append(said.format(name=_name(row), peak=peak, budget=budget))
    return lines


def _name(row: CeilingRow) -> str:
    if not row.vram:
        return tr("the CPU alone")
    count = sum(len(share.blocks) for share in row.plan.target)
    size = in_gibibytes(row.vram / GIB)
    return tr("{size}, {layers} of {count} layers").format(
        size=size, layers=row.plan.layers_on_gpu, count=count
    )


def _cells(cells: Sequence[str]) -> str:
    return "".join(right(cell, _CELL) for cell in cells)


def _probabilities(text: str) -> tuple[float, ...]:
    return tuple(dict.fromkeys(map(probability, text.split(","))))


def _budgets(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(gibibytes, text.split(","))))


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + tr("{done}/{total} rows").format(done=done, total=total) + " ")
        sys.stderr.flush()
