"""`duotail bench duo`: drafting on the CPU while an accelerator verifies."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from engine.bench.answers import Wishes
from engine.bench.drafts import NAMES, RandomPair
from engine.bench.duo import DuoSpeed, measure_duo, measure_first_token
from engine.bench.duo_answers import DuoWay, DuoWishes
from engine.bench.duo_pairs import Prepared, random_lanes, stored_lanes
from engine.bench.first_token import FirstTokens
from engine.bench.forward import CONTEXT, prompt
from engine.bench.lane_shares import LaneShares
from engine.bench.prompts import first_of_each_category, read_prompts
from engine.bench.random_model import DRAFT_FORMAT
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.cli.bench_round import PROMPTS
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_hardware_option,
    gibibytes,
    known_machine,
    load_command,
    one_or_more,
    probability,
)
from engine.cli.plan_report import plan_report
from engine.columns import left, right
from engine.commands import Mode, WeightFormat
from engine.errors import UserFixable
from engine.language import number, tr
from engine.loading.devices import DeviceManager

PAPERS_DRAFT = "llama-68m"
_NAME, _CELL = 34, 12


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "duo", help=tr("measure parallel drafting (DuoDecoding) against serial drafting")
    )
    parser.add_argument(
        "--model", metavar="NAME|PATH", help=tr("the target model (default: the starter model)")
    )
    parser.add_argument(
        "--shape", metavar="S", help=tr("random weights of a published shape, such as qwen2.5-1.5b")
    )
    parser.add_argument(
        "--draft",
        default="auto",
        metavar=f"auto|NAME|PATH|{NAMES}",
        help=tr("the draft: a model, or random weights beside a --shape"),
    )
    parser.add_argument(
        "--vram", type=gibibytes, metavar="GIB", help=tr("use at most this much GPU memory, in GiB")
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
    _add_what_is_asked(parser)
    _add_what_is_scripted(parser)
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(
        run=run, mode=Mode.DUO, format=WeightFormat.AUTO, context=None, layers_on_gpu=None
    )


def _add_what_is_asked(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--prompts",
        type=Path,
        metavar="FILE.jsonl",
        help=tr("file of prompts for a --model, one JSON object a line"),
    )
    parser.add_argument(
        "--limit",
        type=one_or_more,
        metavar="N",
        help=tr("use only the first N prompts of each category"),
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
    parser.add_argument(
        "--first-token",
        type=one_or_more,
        metavar="N",
        help=tr("also measure the time to first token after a prompt of N tokens"),
    )


def _add_what_is_scripted(parser: argparse.ArgumentParser) -> None:
    for option, default, said in (
        ("--shape-format", SHAPE_FORMAT, tr("weight format of a --shape")),
        ("--draft-format", DRAFT_FORMAT, tr("weight format of its draft")),
    ):
        parser.add_argument(option, default=default, choices=FORMATS, metavar="F", help=said)
    parser.add_argument(
        "--acceptance",
        type=probability,
        default=0.7,
        metavar="A",
        help=tr("with --shape: probability that the draft's first choice is accepted"),
    )
    parser.add_argument(
        "--second",
        type=probability,
        default=0.0,
        metavar="A",
        help=tr("with --shape: probability that its second choice is, where the first is rejected"),
    )
    parser.add_argument(
        "--prompt-tokens",
        type=one_or_more,
        default=CONTEXT,
        metavar="N",
        help=tr("with --shape: number of tokens in the context before the answer"),
    )
    parser.add_argument(
        "--c",
        type=_shares,
        default=(None,),
        metavar="C,...",
        help=tr("slow the simulated GPU down until T_draft / T_verify is C"),
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    declared = arguments.c != (None,)
    if declared and arguments.simulate_gpu is None:
        raise UserFixable(
            tr("Only a simulated accelerator can be as slow as one wishes."),
            tr("Add --simulate-gpu, or leave --c out."),
        )
    wishes = DuoWishes(
        tokens=max(arguments.tokens, 2),  # the speed counts from the first token to the last
        runs=arguments.runs,
        acceptance=None if arguments.shape is None else arguments.acceptance,
        second=arguments.second,
    )
    prepared = _shape(arguments, wishes) if arguments.shape else _model(arguments)
    lanes = prepared.build()
    first = None
    if (length := arguments.first_token) is not None:
        long = prompt(lanes.target.config.vocab_size, min(length, prepared.plan.context - 16))
        first = measure_first_token(lanes, long, wishes.runs)
    measured = list(measure_duo(lanes, wishes, arguments.c))
    if arguments.json:
        sys.stdout.write(json.dumps(report(prepared, measured, first, wishes)) + "\n")
    else:
        sys.stdout.write(_table(measured, first))
    return ExitCode.DONE


def _shape(arguments: argparse.Namespace, wishes: DuoWishes) -> Prepared:
    draft = PAPERS_DRAFT if arguments.draft == "auto" else arguments.draft
    pair = RandomPair.published(
        arguments.shape, arguments.shape_format, draft, arguments.draft_format
    )
    planned = Wishes(
        tokens=wishes.tokens,
        acceptance=arguments.acceptance,
        mode=Mode.DUO,
        prompt=max(arguments.prompt_tokens, arguments.first_token or 0),
    )
    known = known_machine(arguments.hardware, arguments.simulate_gpu)
    length = arguments.prompt_tokens
    return random_lanes(
        known, pair, planned, length, vram=arguments.vram, threads=arguments.threads
    )


def _model(arguments: argparse.Namespace) -> Prepared:
    texts: Sequence[str] = PROMPTS
    if arguments.prompts is not None:
        read = first_of_each_category(read_prompts(arguments.prompts), arguments.limit)
        texts = [found.text for found in read]
    machine = known_machine(arguments.hardware, arguments.simulate_gpu)
    return stored_lanes(load_command(arguments), texts, machine, DeviceManager())


def report(
    prepared: Prepared, measured: Sequence[DuoSpeed], first: FirstTokens | None, wishes: DuoWishes
) -> dict[str, object]:
    """What `--json` prints."""
    return {
        "plan": plan_report(prepared.plan),
        "rows": [_row(row) for row in measured],
        "exact": all(row.exact for row in measured),
        "first_token": None if first is None else _first(first),
        **asdict(wishes),
    }


def _row(row: DuoSpeed) -> dict[str, object]:
    return {
        "wished_c": row.wished,
        "c": row.c,
        "ways": {
            way: {**asdict(speed), "lanes": _asdict(row.shares.get(way))}
            for way, speed in row.ways.items()
        },
        "t_verify_ms": {rows: 1e3 * seconds for rows, seconds in row.verify.items()},
        "t_draft_ms": {nodes: 1e3 * seconds for nodes, seconds in row.step.items()},
        "simulated_speedup": row.simulated,
        "measured_to_simulated": row.against_simulated,
        "exact": row.exact,
    }


def _asdict(shares: LaneShares | None) -> dict[str, float] | None:
    return None if shares is None else asdict(shares)


def _first(first: FirstTokens) -> dict[str, object]:
    seconds = asdict(first)
    return {
        "prompt_tokens": seconds.pop("prompt"),
        "seconds": seconds,
        "duo_to_plain": first.duo / first.plain,
        "duo_to_baseline": first.duo / first.baseline,
    }


def _table(measured: Sequence[DuoSpeed], first: FirstTokens | None) -> str:
    names = {
        DuoWay.PLAIN: tr("the target alone"),
        DuoWay.TURNS: tr("in turns, draft on the CPU"),
        DuoWay.TURNS_THERE: tr("in turns, draft beside the target"),
        DuoWay.PARALLEL: tr("in parallel"),
    }
    heads = [
        tr("tokens/s"),
        tr("speed-up"),
        tr("overlap"),
        tr("draft idle"),
        tr("target idle"),
        tr("useful"),
        tr("wasted"),
    ]
    lines: list[str] = []
    for row in measured:
        c = "-" if row.c is None else number(row.c, ".3f")
        lines.append(left(tr("c = {c}").format(c=c), _NAME) + _cells(heads))
        for way, speed in row.ways.items():
            cells = [number(speed.tokens_per_s, ".1f"), number(speed.speedup, ".2f") + "x"]
            if (shares := row.shares.get(way)) is not None:
                each = (
                    *(shares.overlap, shares.draft_idle, shares.verify_idle),
                    *(shares.useful, shares.wasted),
                )
                cells += [number(share, ".0%") for share in each]
            lines.append(left(names[way], _NAME) + _cells(cells))
        if row.simulated is not None:
            simulated = number(row.simulated, ".2f") + "x"
            lines.append(left(tr("in parallel, simulated"), _NAME) + _cells(["", simulated]))
        lines.append("")
    if first is not None:
        lines.append(_first_line(first))
    lines.append(tr("texts equal") if all(row.exact for row in measured) else tr("TEXTS DIFFER"))
    return "\n".join(lines) + "\n"


def _first_line(first: FirstTokens) -> str:
    said = tr(
        "first token behind {count} tokens: alone {plain:.1f} ms, in parallel {duo:.1f} ms, "
        "in turns {baseline:.1f} ms"
    )
    return said.format(
        count=first.prompt,
        plain=1e3 * first.plain,
        duo=1e3 * first.duo,
        baseline=1e3 * first.baseline,
    )


def _cells(cells: Sequence[str]) -> str:
    return "".join(right(cell, _CELL) for cell in cells)


def _shares(text: str) -> tuple[float, ...]:
    shares = tuple(dict.fromkeys(map(probability, text.split(","))))
    if 0 in shares:
        raise argparse.ArgumentTypeError(tr("a draft takes some time"))
    return shares
