"""Prompts of benchmarks of answers: options, choice, progress."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from engine.bench.harness import MeasuredStrategy, measure
from engine.bench.prompts import BenchPrompt, first_of_each_category, read_prompts
from engine.cli.options import add_sampling_options, one_or_more
from engine.errors import UserFixable
from engine.language import number, tr
from engine.request import SamplingParams

_MAX_TOKENS = 128


def add_prompt_options(parser: argparse.ArgumentParser, repeat: int) -> None:
    """--prompts, --limit, --repeat, --system and how tokens are drawn."""
    parser.add_argument(
        "--prompts", type=Path, action="append", required=True, metavar="FILE.jsonl|FILE.txt",
        help=tr("file of prompts, JSON Lines or one prompt a line; may be given several times"),
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=one_or_more, action="append", metavar="N",
        help=tr("use only the first N prompts of each category; given again, for the next file"),
    )  # fmt: skip
    parser.add_argument(
        "--repeat",
        type=one_or_more,
        default=repeat,
        metavar="N",
        help=tr("answer every prompt this many times in every mode"),
    )
    parser.add_argument(
        "--system",
        metavar="TEXT",
        help=tr("the system prompt, which goes before every conversation"),
    )
    add_sampling_options(parser)


def chosen_prompts(arguments: argparse.Namespace) -> list[BenchPrompt]:
    """The prompts that the options name; the last limit holds for all files that follow.

    Raises:
        UserFixable: a file that holds none.
    """
    limits, prompts = arguments.limit or [None], []
    for at, file in enumerate(arguments.prompts):
        limit = limits[min(at, len(limits) - 1)]
        prompts += first_of_each_category(read_prompts(file), limit)
    return prompts


def measured_prompts(
    strategies: Mapping[str, MeasuredStrategy],
    prompts: Sequence[BenchPrompt],
    params: SamplingParams,
    arguments: argparse.Namespace,
) -> list[BenchPrompt]:
    """Measure as the options say; see `measure`.

    Raises:
        UserFixable: every prompt was left out.
    """
    measured = measure(
        strategies,
        prompts,
        params,
        max_tokens=arguments.max_tokens or _MAX_TOKENS,
        repeat=arguments.repeat,
        system=arguments.system,
        progress=_show_progress,
    )
    if not measured:
        raise UserFixable(
            tr("None of the prompts could be measured."),
            tr("Use shorter prompts, a longer context or more tokens."),
        )
    return measured


def _show_progress(done: int, total: int) -> None:
    """A line that is written anew, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write("\r" + tr("{done}/{total} prompts").format(done=done, total=total) + " ")
        sys.stderr.flush()


def or_dash(value: float | None, spec: str) -> str:
    """A figure in a table; a dash where there is none."""
    return "-" if value is None else number(value, spec)
