"""`duotail bench predictions`: what the planner says, beside runs done afterwards."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from engine.bench.answers import Wishes
from engine.bench.forward import CONTEXT
from engine.bench.placement import Placing
from engine.bench.predictions import (
    Case,
    CaseOutcome,
    PredictedSpeed,
    compare,
    median_error,
    planned,
)
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_hardware_option,
    gibibytes,
    known_machine,
    layers,
    one_or_more,
    probability,
)
from engine.cli.plan_report import memory_report, plan_report
from engine.columns import left, right
from engine.commands import Mode
from engine.language import listed, number, tr
from engine.plan.plan import Plan

SHAPES = ("qwen2.5-0.5b", "qwen3-0.6b", "gemma3-1b", "llama3.2-1b", "qwen2.5-1.5b")
_WIDTHS = (8, 11, 11, 9, 9)
_MEMORY_WIDTHS = (11, 11, 9, 11, 11, 9)


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "predictions", help=tr("compare what the planner predicts with what is measured")
    )
    parser.add_argument(
        "--shapes", type=_listed, default=SHAPES, metavar="S,S", help=tr("published shapes to run")
    )
    parser.add_argument(
        "--formats",
        type=_formats,
        default=(SHAPE_FORMAT,),
        metavar="F,F",
        help=tr("weight formats to run"),
    )
    parser.add_argument(
        "--modes",
        type=_modes,
        default=(Mode.CPU,),
        metavar="M,M",
        help=tr("modes to run without a GPU"),
    )
    parser.add_argument(
        "--simulate-gpu",
        type=gibibytes,
        metavar="GIB",
        help=tr("simulate a GPU with this much memory, in GiB"),
    )
    parser.add_argument(
        "--vram",
        type=_budgets,
        default=(),
        metavar="GIB,GIB",
        help=tr("VRAM budgets to run Dovetail with, in GiB"),
    )
    parser.add_argument(
        "--layers-on-gpu",
        type=_layers,
        default=(),
        metavar="N,all",
        help=tr("numbers of target layers on the GPU to run Dovetail with"),
    )
    parser.add_argument(
        "--acceptance",
        type=probability,
        default=0.8,
        metavar="A",
        help=tr("probability that a drafted token is accepted"),
    )
    parser.add_argument(
        "--context",
        type=one_or_more,
        default=CONTEXT,
        metavar="N",
        help=tr("number of tokens in the context before the answer"),
    )
    parser.add_argument(
        "--tokens",
        type=one_or_more,
        default=48,
        metavar="N",
        help=tr("write this many tokens in every answer"),
    )
    parser.add_argument(
        "--runs",
        type=one_or_more,
        default=2,
        metavar="N",
        help=tr("measure this many answers in every mode"),
    )
    parser.add_argument(
        "--rounds",
        type=one_or_more,
        default=1,
        metavar="N",
        help=tr("repeat the whole comparison this many times"),
    )
    add_hardware_option(parser)
    parser.add_argument("--json", action="store_true", help=tr("print one JSON object on stdout"))
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Predict, run, compare, print."""
    wishes = Wishes(
        tokens=max(arguments.tokens, 2),  # the speed counts from the first token to the last
        runs=arguments.runs,
        acceptance=arguments.acceptance,
        prompt=arguments.context,
    )
    known = known_machine(arguments.hardware, arguments.simulate_gpu, measured=True)
    cases = list(_cases(arguments))
    plans = planned(cases, known, wishes)
    outcomes = list(
        compare(cases, plans, known[0], wishes, rounds=arguments.rounds, progress=_progress)
    )
    if arguments.json:
        sys.stdout.write(json.dumps(_report(outcomes)) + "\n")
    else:
        sys.stdout.write(_table(outcomes))
    return ExitCode.DONE


def _cases(arguments: argparse.Namespace) -> Iterator[Case]:
    placings = [Placing(mode) for mode in arguments.modes]
    placings += [Placing(Mode.DOVETAIL, vram=budget) for budget in arguments.vram]
    placings += [Placing(Mode.DOVETAIL, layers_on_gpu=n) for n in arguments.layers_on_gpu]
    for shape in arguments.shapes:
        for wanted in arguments.formats:
            for placing in placings:
                yield Case(shape, wanted, placing)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r" + tr("{done}/{total} runs").format(done=done, total=total) + " ")
        sys.stderr.flush()


def _report(outcomes: Sequence[CaseOutcome]) -> dict[str, object]:
    """Errors are shares: 0.1 is a prediction one tenth too high."""
    uses = [use for outcome in outcomes for use in outcome.memory.values()]
    beside = [use.ledger_off for use in uses if use.ledger_off is not None]
    return {
        "median_error": median_error(outcomes),
        "most_memory_error": max((abs(use.off) for use in uses), default=None),
        "most_ledger_error": max(map(abs, beside), default=None),
        "rows": [_row(outcome) for outcome in outcomes],
    }


def _row(outcome: CaseOutcome) -> dict[str, object]:
    case = outcome.case
    return {
        "shape": case.shape,
        "format": case.wanted,
        "vram": case.placing.vram,
        "plan": plan_report(outcome.plan),
        "speeds": [
            {
                "depth": speed.depth,
                "predicted_tokens_per_s": speed.predicted,
                "tokens_per_s": speed.measured,
                "error": speed.off,
            }
            for speed in outcome.speeds
        ],
        "tokens_per_s_at_depth": outcome.fixed,
        "memory": {
            device: {
                "predicted": memory_report(use.predicted),
                "ledger": memory_report(use.ledger),
                "error": use.off,
                "touched": use.touched,
                "measured": use.measured,
                "ledger_error": use.ledger_off,
            }
            for device, use in outcome.memory.items()
        },
    }


def _table(outcomes: Sequence[CaseOutcome]) -> str:
    head = [tr("format"), tr("on GPU"), tr("drafts"), tr("predicted"), tr("measured"), tr("error")]
    head.append(tr("fixed"))
    lines = [left(tr("tokens/s"), 15) + "".join(map(right, head, (9, 9, *_WIDTHS)))]
    for outcome in outcomes:
        lines += [_speed_line(outcome, speed) for speed in outcome.speeds]
    error = median_error(outcomes)
    if error is not None:
        lines.append(tr("median error {error}").format(error=number(error, ".1%")))
    head = [tr("predicted"), tr("ledger"), tr("error"), tr("touched"), tr("measured"), tr("error")]
    lines.append("")
    lines.append(
        left(tr("MiB"), 15)
        + "".join(map(right, (tr("format"), tr("on GPU")), (9, 9)))
        + " "
        + left(tr("device"), 12)
        + "".join(map(right, head, _MEMORY_WIDTHS))
    )
    for outcome in outcomes:
        lines += [_memory_line(outcome, device) for device in outcome.memory]
    return "\n".join(lines) + "\n"


def _name(outcome: CaseOutcome) -> str:
    case = outcome.case
    layers_there = _layers_words(outcome.plan)
    return left(case.shape, 15) + right(case.wanted, 9) + right(layers_there, 9)


def _layers_words(plan: Plan) -> str:
    total = sum(len(share.blocks) for share in plan.target)
    return f"{plan.layers_on_gpu}/{total}"


def _speed_line(outcome: CaseOutcome, speed: PredictedSpeed) -> str:
    cells = [
        str(speed.depth),
        number(speed.predicted, ".1f"),
        number(speed.measured, ".1f"),
        number(speed.off, "+.1%"),
        number(outcome.fixed, ".1f") if speed.depth and outcome.fixed else "-",
    ]
    return _name(outcome) + "".join(map(right, cells, _WIDTHS))


def _memory_line(outcome: CaseOutcome, device: str) -> str:
    use = outcome.memory[device]
    cells = [
        _mebibytes(use.predicted.total),
        _mebibytes(use.ledger.total),
        number(use.off, "+.1%"),
        _mebibytes(use.touched),
        "-" if use.measured is None else _mebibytes(use.measured),
        "-" if use.ledger_off is None else number(use.ledger_off, "+.1%"),
    ]
    return _name(outcome) + " " + left(device, 12) + "".join(map(right, cells, _MEMORY_WIDTHS))


def _mebibytes(nbytes: int) -> str:
    return number(nbytes / 2**20, ".1f")


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text.split(",")))


def _formats(text: str) -> tuple[str, ...]:
    return _all_of(text, FORMATS)


def _modes(text: str) -> tuple[Mode, ...]:
    return tuple(map(Mode, _all_of(text, (Mode.AUTO, Mode.PLAIN, Mode.CPU))))


def _all_of(text: str, known: Sequence[str]) -> tuple[str, ...]:
    chosen = _listed(text)
    if not set(chosen) <= set(known):
        raise argparse.ArgumentTypeError(
            tr("{text!r} is not among {names}").format(text=text, names=listed(known))
        )
    return chosen


def _budgets(text: str) -> tuple[int, ...]:
    return tuple(map(gibibytes, _listed(text)))


def _layers(text: str) -> tuple[int, ...]:
    return tuple(map(layers, _listed(text)))
