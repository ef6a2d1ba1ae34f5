"""`duotail bench`: measurements, also for users."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from engine.bench.prompts import first_of_each_category, read_prompts
from engine.bench.speculate import Summary, measure, summarise
from engine.cli import (
    bench_accelerator,
    bench_dovetail,
    bench_drafters,
    bench_duo,
    bench_formats,
    bench_forward,
    bench_lanes,
    bench_modes,
    bench_predictions,
    bench_quality,
    bench_round,
    bench_shapes,
)
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_model_options,
    add_sampling_options,
    load_pair,
    one_or_more,
    sampling,
)
from engine.columns import left, right
from engine.errors import UserFixable
from engine.language import number, tr

DEFAULT_MAX_TOKENS = 128

_WIDTHS = (9, 10, 10, 10, 17, 8)
"""Of the columns behind the first."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("bench", help=tr("measure"))
    kinds = parser.add_subparsers(dest="kind", required=True)
    speculate = kinds.add_parser("speculate", help=tr("speculative against plain decoding"))
    add_model_options(speculate)
    add_sampling_options(speculate)
    speculate.add_argument("--prompts", type=Path, required=True, metavar="FILE.jsonl")
    speculate.add_argument(
        "--limit", type=one_or_more, metavar="N", help=tr("prompts per category")
    )
    speculate.add_argument(
        "--repeat", type=one_or_more, default=1, metavar="N", help=tr("runs each way")
    )
    speculate.add_argument(
        "--no-shared-noise", action="store_true", help=tr("rank drafts without the target's noise")
    )
    speculate.set_defaults(run=run_speculate)
    bench_forward.add_parsers(kinds)
    bench_round.add_parser(kinds)
    bench_shapes.add_parser(kinds)
    bench_dovetail.add_parser(kinds)
    bench_drafters.add_parser(kinds)
    bench_duo.add_parser(kinds)
    bench_accelerator.add_parser(kinds)
    bench_lanes.add_parser(kinds)
    bench_modes.add_parser(kinds)
    bench_predictions.add_parser(kinds)
    bench_quality.add_parser(kinds)
    bench_formats.add_parser(kinds)


def run_speculate(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    prompts = first_of_each_category(read_prompts(arguments.prompts), arguments.limit)
    params = sampling(arguments)
    pair = load_pair(arguments)
    if not pair.drafts:
        raise UserFixable(
            tr("Nothing drafts here, so there is nothing to compare."), tr("Choose a draft.")
        )
    results = measure(
        pair,
        prompts,
        params,
        max_tokens=arguments.max_tokens or DEFAULT_MAX_TOKENS,
        repeat=arguments.repeat,
        share_noise=not arguments.no_shared_noise,
        progress=_progress,
    )
    categories, overall = summarise(results)
    if overall is None:
        raise UserFixable(
            tr("None of the prompts could be measured."),
            tr("Use shorter prompts, a longer context or more tokens."),
        )
    if arguments.json:
        report = {
            "categories": {name: asdict(summary) for name, summary in categories.items()},
            "overall": {**asdict(overall), "skipped": len(prompts) - overall.prompts},
        }
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_table({**categories, "overall": overall}))
    return ExitCode.DONE


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + tr("{done}/{total} prompts").format(done=done, total=total) + " ")
        sys.stderr.flush()


def _table(rows: dict[str, Summary]) -> str:
    head = [
        tr("prompts"),
        tr("plain/s"),
        tr("draft/s"),
        tr("speed-up"),
        tr("accept. length"),
        tr("exact"),
    ]
    lines = [left(tr("category"), 16) + "".join(map(right, head, _WIDTHS))]
    for name, row in rows.items():
        cells = [
            str(row.prompts),
            number(row.plain_tokens_per_s, ".1f"),
            number(row.tokens_per_s, ".1f"),
            number(row.speedup, ".2f") + "x",
            number(row.acceptance_length, ".2f") if row.acceptance_length else "-",
            tr("yes") if row.exact else tr("NO"),
        ]
        lines.append(left(name, 16) + "".join(map(right, cells, _WIDTHS)))
    return "\n".join(lines) + "\n"
