"""`duotail bench round`: Python's share of a round."""

from __future__ import annotations

import argparse
from dataclasses import asdict, fields
from pathlib import Path

from engine.bench.prompts import BenchPrompt, read_prompts
from engine.bench.rounds import RoundProfile, RoundTimes, profile_rounds
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_model_options, add_sampling_options, load_pair, sampling
from engine.cli.output import show, table
from engine.language import number, tr

PROMPTS = (
    "Hello! How are you?",
    "Tell me a short story about a dog.",
    "What is rain?",
    "Tell me about the moon.",
)
"""Prompts unless a file says otherwise."""

DEFAULT_MAX_TOKENS = 128


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "round", help=tr("measure the time of a round inside and outside native calls")
    )
    add_model_options(parser)
    add_sampling_options(parser)
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE.jsonl",
        help=tr("file of prompts, one JSON object a line"),
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    if arguments.prompts is None:
        prompts = [BenchPrompt("all", text) for text in PROMPTS]
    else:
        prompts = read_prompts(arguments.prompts)
    most = arguments.max_tokens or DEFAULT_MAX_TOKENS
    profile = profile_rounds(load_pair(arguments), prompts, sampling(arguments), max_tokens=most)
    return show(arguments, asdict(profile), _table(profile))


def _table(profile: RoundProfile) -> list[str]:
    names = [field.name for field in fields(RoundTimes)]
    rows = [["", tr("rounds"), *names]]
    for kind, count, times in (
        (tr("drafting"), profile.drafting_rounds, profile.drafting),
        (tr("plain"), profile.plain_rounds, profile.plain),
    ):
        if times is not None:
            values = [number(getattr(times, name), ".1f") for name in names]
            rows.append([kind, str(count), *values])
    return table(rows)
