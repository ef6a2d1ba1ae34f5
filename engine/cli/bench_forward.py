"""`duotail bench decode|verify|prefill`: what forwards cost, on a model or on a published shape."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from engine.bench.forward import (
    DecoderSide,
    Side,
    Subject,
    forwards_in_turns,
    prefills_in_turns,
    random_subject,
    stored_subject,
)
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import llama_cpp
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.bench.shapes import shape
from engine.cli.columns import left
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options, one_or_more
from engine.commands import WeightFormat
from engine.errors import UserFixable
from engine.hub.local import resolve_model
from engine.language import listed, number, tr

VERIFY_ROWS = (1, 2, 4, 5, 8, 16)
MOST_PREFILLS = 5


def add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-commands."""
    for name, run, words in (
        ("decode", run_decode, tr("measure plain decoding, one token at a time")),
        ("verify", run_verify, tr("measure a forward over n tokens, as verification needs it")),
        ("prefill", run_prefill, tr("measure prefill, the processing of a prompt")),
    ):
        parser = kinds.add_parser(name, help=words)
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--model", metavar="NAME|PATH", help=tr("the target model (default: the starter model)")
        )
        which.add_argument(
            "--shape",
            metavar="S",
            help=tr("random weights of a published shape, such as qwen2.5-1.5b"),
        )
        parser.add_argument(
            "--format",
            choices=dict.fromkeys((*map(str, WeightFormat), *FORMATS)),
            metavar="F",
            help=tr("weight format; with --shape one of: {formats}").format(
                formats=", ".join(FORMATS)
            ),
        )
        add_options(parser, "--threads")
        parser.add_argument(
            "--runs", type=one_or_more, default=20, metavar="N", help=tr("measure this many times")
        )
        add_options(parser, "--peer")
        add_options(parser, "--json")
        parser.set_defaults(run=run)


def run_decode(arguments: argparse.Namespace) -> ExitCode:
    """Plain decoding speed."""
    with _sides(arguments) as (sides, settings):
        speeds = [t.tokens_per_s for t in forwards_in_turns(sides, (1,), arguments.runs)]
    return _report(arguments, {**_compared(speeds), "runs": arguments.runs, **settings})


def run_verify(arguments: argparse.Namespace) -> ExitCode:
    """Milliseconds of a forward by its rows."""
    with _sides(arguments) as (sides, settings):
        times = forwards_in_turns(sides, VERIFY_ROWS, arguments.runs)
    milliseconds = [[1e3 * side.seconds[n] for n in VERIFY_ROWS] for side in times]
    named = dict(zip(("ms", "peer_ms"), milliseconds, strict=False))
    return _report(arguments, {"n": list(VERIFY_ROWS), **named, **settings})


def run_prefill(arguments: argparse.Namespace) -> ExitCode:
    """Prompt tokens per second."""
    with _sides(arguments) as (sides, settings):
        speeds = prefills_in_turns(sides, min(arguments.runs, MOST_PREFILLS))
    return _report(arguments, {**_compared(speeds), **settings})


def _compared(speeds: Sequence[float]) -> dict[str, object]:
    if len(speeds) == 1:
        return {"tokens_per_s": speeds[0]}
    ours, peer = speeds
    return {"tokens_per_s": ours, "peer_tokens_per_s": peer, "ratio": ours / peer}


@contextmanager
def _sides(arguments: argparse.Namespace) -> Iterator[tuple[list[Side], dict[str, object]]]:
    """Our side, with the peer's and its settings if asked for."""
    if arguments.peer is not None:
        find_interpreter()  # before minutes go into a model
    subject = _subject(arguments)
    own = DecoderSide(subject.decoder)
    if arguments.peer is None:
        yield [own], {}
        return
    with llama_cpp(subject.config, subject.weights, arguments.threads) as peer:
        yield [own, peer], {"peer": peer.settings}


def _subject(arguments: argparse.Namespace) -> Subject:
    wanted, threads = arguments.format or WeightFormat.AUTO, arguments.threads
    if arguments.shape is not None:
        wanted = SHAPE_FORMAT if wanted == WeightFormat.AUTO else wanted
        return random_subject(shape(arguments.shape), _known(wanted, FORMATS), threads)
    wish = WeightFormat(_known(wanted, list(WeightFormat)))
    return stored_subject(resolve_model(arguments.model), wish, threads)


def _known(wanted: str, formats: Sequence[str]) -> str:
    """The format, if it is one of those.

    Raises:
        UserFixable: it is not: files are held as they are or in few formats, shapes in any.
    """
    if wanted in formats:
        return wanted
    raise UserFixable(
        tr("The weights cannot be had as {wanted} here.").format(wanted=wanted),
        tr("Choose one of {known}.").format(known=listed(formats)),
    )


def _report(arguments: argparse.Namespace, result: dict[str, object]) -> ExitCode:
    if arguments.json:
        sys.stdout.write(json.dumps(result, default=asdict) + "\n")
        return ExitCode.DONE
    for name, value in result.items():
        sys.stdout.write(left(name, 18) + _words(value) + "\n")
    return ExitCode.DONE


def _words(value: object) -> str:
    if isinstance(value, list):
        return "".join(left(_words(part), 10) for part in value)
    return number(value, ".5g") if isinstance(value, float) else str(value)
