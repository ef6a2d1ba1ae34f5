"""`duotail bench decode|verify|prefill|formats`: what forwards cost, of a model or a shape."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict

from engine.bench.formats import FormatCost, measure_formats
from engine.bench.forward import (
    CONTEXT,
    DecoderSide,
    GoingOn,
    Side,
    Subject,
    forwards_in_turns,
    prefills_in_turns,
    random_subject,
    stored_subject,
)
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, llama_cpp
from engine.bench.recipes import FORMATS, SHAPE_FORMAT, UNIFORM
from engine.bench.shapes import shape
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_options, one_or_more
from engine.cli.output import left, or_dash, show, show_progress, table
from engine.commands import KvType, WeightFormat
from engine.errors import UserFixable
from engine.hub.shelf.names import model_named
from engine.language import listed, number, tr

VERIFY_ROWS = (1, 2, 4, 5, 8, 16)
MOST_PREFILLS = 5
SHAPE = "bench"


def add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-commands."""
    for name, run, words in (
        ("decode", run_decode, tr("measure plain decoding, one token at a time")),
        ("verify", run_verify, tr("measure a forward over n tokens, as in verification")),
        ("prefill", run_prefill, tr("measure prefill, the processing of a prompt")),
    ):
        parser = kinds.add_parser(name, help=words)
        which = parser.add_mutually_exclusive_group()
        add_options(which, "--model", "--shape")
        parser.add_argument(
            "--format",
            choices=dict.fromkeys((*map(str, WeightFormat), *FORMATS)),
            metavar="F",
            help=tr("weight format; with --shape one of: {formats}").format(
                formats=", ".join(FORMATS)
            ),
        )
        parser.add_argument(
            "--context",
            type=one_or_more,
            default=CONTEXT,
            metavar="N",
            help=tr("tokens in the KV cache, or of the prompt (default: {tokens})").format(
                tokens=CONTEXT
            ),
        )
        add_options(parser, "--kv", "--threads", "--peer", "--json")
        add_options(parser, "--runs", default=20)
        if run is run_verify:
            _add_comparisons(parser)
        parser.set_defaults(run=run)
    parser = kinds.add_parser("formats", help=tr("measure memory and speed of every weight format"))
    add_options(parser, "--shape", default=SHAPE)
    parser.add_argument(
        "--format", "--formats", dest="formats", type=_formats, default=tuple(UNIFORM),
        metavar="F,F",
        help=tr("weight formats to measure (default: all)"),
    )  # fmt: skip
    add_options(parser, "--threads", "--json")
    add_options(parser, "--runs", default=5)
    parser.set_defaults(run=run_formats)


def _add_comparisons(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--beside",
        metavar="S",
        help=tr("also measure this shape, in the same run"),
    )
    parser.add_argument(
        "--kept",
        action="store_true",
        help=tr("also measure behind rounds of which one token was kept, or all"),
    )


def run_decode(arguments: argparse.Namespace) -> ExitCode:
    """Plain decoding speed."""
    with _sides(arguments) as (sides, settings):
        times = forwards_in_turns(list(sides.values()), (1,), arguments.runs)
        speeds = [1 / seconds[1] for seconds in times]
    return _report(arguments, {**_compared(speeds), "runs": arguments.runs, **settings})


def run_verify(arguments: argparse.Namespace) -> ExitCode:
    """Milliseconds of a forward by its rows."""
    with _sides(arguments) as (sides, settings):
        times = forwards_in_turns(list(sides.values()), VERIFY_ROWS, arguments.runs)
    milliseconds = [[1e3 * seconds[n] for n in VERIFY_ROWS] for seconds in times]
    named = {f"{name}ms": each for name, each in zip(sides, milliseconds, strict=True)}
    return _report(arguments, {"n": list(VERIFY_ROWS), **named, **settings})


def run_prefill(arguments: argparse.Namespace) -> ExitCode:
    """Prompt tokens per second."""
    with _sides(arguments) as (sides, settings):
        runs = min(arguments.runs, MOST_PREFILLS)
        speeds = prefills_in_turns(list(sides.values()), runs, arguments.context)
    return _report(arguments, {**_compared(speeds), **settings})


def _compared(speeds: Sequence[float]) -> dict[str, object]:
    if len(speeds) == 1:
        return {"tokens_per_s": speeds[0]}
    ours, peer = speeds
    return {"tokens_per_s": ours, "peer_tokens_per_s": peer, "ratio": ours / peer}


@contextmanager
def _sides(arguments: argparse.Namespace) -> Iterator[tuple[dict[str, Side], dict[str, object]]]:
    """Our side, by a name before its figures, with others and the peer's settings if asked for."""
    if arguments.peer is not None:
        find_interpreter()  # before minutes go into a model
    subject = _subject(arguments)
    length = arguments.context
    sides: dict[str, Side] = {"": DecoderSide(subject.decoder, length)}
    decoders = {"": subject.decoder}
    if beside := getattr(arguments, "beside", None):
        other = random_subject(shape(beside), _wanted(arguments), arguments.threads).decoder
        decoders["beside_"], sides["beside_"] = other, DecoderSide(other, length)
    if getattr(arguments, "kept", False):
        for name, decoder in decoders.items():
            sides[f"{name}one_kept_"] = GoingOn(decoder, length, 1)
            sides[f"{name}all_kept_"] = GoingOn(decoder, length, None)
    settings: dict[str, object] = {"context": length, "signature": subject.decoder.signature}
    if arguments.peer is None:
        yield sides, settings
        return
    with llama_cpp(subject.config, subject.weights, arguments.threads, length=length) as peer:
        yield {**sides, "peer_": peer}, {**settings, "peer": peer.settings}


def _subject(arguments: argparse.Namespace) -> Subject:
    threads, kv = arguments.threads, KvType(arguments.kv)
    if arguments.shape is not None:
        return random_subject(shape(arguments.shape), _wanted(arguments), threads, kv)
    wish = WeightFormat(_known(arguments.format or WeightFormat.AUTO, list(WeightFormat)))
    return stored_subject(model_named(arguments.model), wish, threads, kv)


def _wanted(arguments: argparse.Namespace) -> str:
    """The format of random weights.

    Raises:
        UserFixable: there is none of that name.
    """
    wanted = arguments.format or WeightFormat.AUTO
    return _known(SHAPE_FORMAT if wanted == WeightFormat.AUTO else wanted, FORMATS)


def _known(wanted: str, formats: Sequence[str]) -> str:
    """The format, if it is one of those.

    Raises:
        UserFixable: it is not: files are held as they are or in few formats, shapes in any.
    """
    if wanted in formats:
        return wanted
    raise UserFixable(
        tr("The weight format {wanted} is not available here.").format(wanted=wanted),
        tr("Choose one of {known}.").format(known=listed(formats)),
    )


def _report(arguments: argparse.Namespace, result: dict[str, object]) -> ExitCode:
    lines = [left(name, 18) + _words(value) for name, value in result.items()]
    if isinstance(settings := result.get("peer"), PeerSettings):
        result["peer"] = asdict(settings)
    return show(arguments, result, lines)


def _words(value: object) -> str:
    if isinstance(value, list):
        return "".join(left(_words(part), 10) for part in value)
    return number(value, ".5g") if isinstance(value, float) else str(value)


# ---- formats ---------------------------------------------------------------------------------


def run_formats(arguments: argparse.Namespace) -> ExitCode:
    """Memory and speed of every weight format."""
    costs = measure_formats(
        shape(arguments.shape),
        arguments.formats,
        threads=arguments.threads,
        runs=arguments.runs,
        progress=lambda done, total: show_progress(f"{done}/{total} "),
    )
    rows = {name: _row(cost) for name, cost in costs.items()}
    return show(arguments, {"shape": arguments.shape, "formats": rows}, _table(rows))


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


def _table(rows: dict[str, dict[str, float | None]]) -> list[str]:
    heads = (
        tr("format"), tr("error"), tr("bytes/weight"), tr("1 token, ms"), tr("8 tokens, ms"),
        tr("ratio"), tr("GB/s"),
    )  # fmt: skip
    cells = [
        (name, or_dash(error, "g"), *(number(value or 0, ".3f") for value in others))
        for name, (error, *others) in ((name, row.values()) for name, row in rows.items())
    ]
    return table([heads, *cells])


def _formats(text: str) -> tuple[str, ...]:
    chosen = text.split(",")
    if not set(chosen) <= set(UNIFORM):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not among {names}").format(text=text, names=listed(UNIFORM))
        )
    return tuple(dict.fromkeys(chosen))
