"""`duotail bench accelerator`: what a graphics card makes of its memory's speed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from engine.bench.answers import Wishes
from engine.bench.dovetail import PAPERS_SHAPE
from engine.bench.recipes import FORMATS
from engine.cli.exit_code import ExitCode
from engine.cli.options import gibibytes, known_machine, one_or_more
from engine.cli.plan_report import use_report
from engine.columns import left, right
from engine.commands import Mode
from engine.language import later, listed, number, tr

if TYPE_CHECKING:
    from engine.bench.accelerator_speed import AcceleratorSpeed, DecodeSpeed

DEFAULT_FORMATS = ("bf16", "q8_0", "q4_0")
DEFAULT_ROWS = (1, 4, 8, 16, 32)
GIGA = 1e9
_NAME, _CELL = 34, 12

_PARTS = {
    "all": later("all together"),
    "qkv": later("queries, keys and values"),
    "output": later("the attention's output"),
    "gate_up": later("gate and up"),
    "down": later("down"),
    "head": later("the output matrix"),
}


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "accelerator",
        help=tr("measure a GPU: matrix products and decoding, relative to its memory bandwidth"),
    )
    parser.add_argument(
        "--shape",
        default=PAPERS_SHAPE,
        metavar="S",
        help=tr("random weights of a published shape, such as qwen2.5-1.5b"),
    )
    parser.add_argument(
        "--formats",
        type=_formats,
        default=DEFAULT_FORMATS,
        metavar="F,...",
        help=tr("weight formats to measure"),
    )
    parser.add_argument(
        "--rows",
        type=_rows,
        default=DEFAULT_ROWS,
        metavar="N,...",
        help=tr("numbers of rows in a forward to measure"),
    )
    parser.add_argument(
        "--read",
        type=gibibytes,
        default=gibibytes("1"),
        metavar="GIB",
        help=tr("read this much memory to measure its bandwidth, in GiB"),
    )
    parser.add_argument(
        "--tokens",
        type=one_or_more,
        default=64,
        metavar="N",
        help=tr("write this many tokens in every answer"),
    )
    parser.add_argument(
        "--runs", type=one_or_more, default=3, metavar="N", help=tr("measure this many answers")
    )
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    from engine.bench.accelerator_speed import measure_accelerator  # imports torch

    wishes = Wishes(
        tokens=max(arguments.tokens, 2),
        runs=arguments.runs,
        mode=Mode.PLAIN,
        rows=tuple(dict.fromkeys((1, *arguments.rows))),
    )
    measured = measure_accelerator(
        known_machine(None, None),
        arguments.shape,
        arguments.formats,
        wishes,
        read_bytes=arguments.read,
        progress=_progress,
    )
    if arguments.json:
        sys.stdout.write(json.dumps(report(measured)) + "\n")
    else:
        sys.stdout.write("\n".join(_table(measured)) + "\n")
    return ExitCode.DONE


def report(measured: AcceleratorSpeed) -> dict[str, object]:
    """What `--json` prints; shares are of the measured bandwidth."""
    return {
        "device": measured.accelerator.name,
        "bytes_per_s": measured.bandwidth,
        "products": {
            wanted: {
                "blocks": times.blocks,
                "graph": times.graph,
                "parts": {
                    part: {
                        rows: {
                            "ms": 1e3 * time.seconds,
                            "bytes": time.nbytes,
                            "bytes_per_s": time.bytes_per_s,
                            "share": time.bytes_per_s / measured.bandwidth,
                        }
                        for rows, time in own.items()
                    }
                    for part, own in times.parts.items()
                },
            }
            for wanted, times in measured.products.items()
        },
        "decode": {
            wanted: _decode(speed, measured.bandwidth) for wanted, speed in measured.decode.items()
        },
    }


def _decode(speed: DecodeSpeed, bandwidth: float) -> dict[str, object]:
    return {
        "tokens_per_s": speed.tokens_per_s,
        "bytes_per_token": speed.bytes_per_token,
        "share": speed.bytes_per_s / bandwidth,
        "t_verify_ms": {rows: 1e3 * seconds for rows, seconds in speed.verify.items()},
        "memory": {device: use_report(use) for device, use in speed.memory.items()},
    }


def _table(measured: AcceleratorSpeed) -> Iterator[str]:
    from engine.bench.accelerator_speed import DECODE_GOALS, PRODUCT_GOAL

    said = tr("{name}: {speed} GB/s read")
    speed = number(measured.bandwidth / GIGA, ",.0f")
    yield said.format(name=measured.accelerator.name, speed=speed)
    goal = number(PRODUCT_GOAL, ".0%")
    for wanted, times in measured.products.items():
        yield ""
        rows = list(next(iter(times.parts.values())))
        title = tr("{format}, products with n rows").format(format=wanted)
        yield left(title, _NAME) + _cells([str(count) for count in rows])
        for part, own in times.parts.items():
            shares = [time.bytes_per_s / measured.bandwidth for time in own.values()]
            yield left(tr(_PARTS[part]), _NAME) + _cells([number(share, ".0%") for share in shares])
    yield tr("of that speed; the goal of all products together is {goal}").format(goal=goal)
    for wanted, decode in measured.decode.items():
        said = tr("{format}: {rate} tokens/s decoded, {share} of that speed")
        line = said.format(
            format=wanted,
            rate=number(decode.tokens_per_s, ".1f"),
            share=number(decode.bytes_per_s / measured.bandwidth, ".0%"),
        )
        if wanted in DECODE_GOALS:
            line += tr("; the goal is {goal}").format(goal=number(DECODE_GOALS[wanted], ".0%"))
        yield ""
        yield line
        yield left(tr("verification of n rows, ms"), _NAME) + _cells([*map(str, decode.verify)])
        yield left("", _NAME) + _cells([number(1e3 * s, ".2f") for s in decode.verify.values()])


def _cells(cells: Sequence[str]) -> str:
    return "".join(right(cell, _CELL) for cell in cells)


def _formats(text: str) -> tuple[str, ...]:
    chosen = tuple(dict.fromkeys(text.split(",")))
    if not set(chosen) <= set(FORMATS):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not among {names}").format(text=text, names=listed(FORMATS))
        )
    return chosen


def _rows(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(map(one_or_more, text.split(","))))


def _progress(stage: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"{stage}\n")
        sys.stderr.flush()
