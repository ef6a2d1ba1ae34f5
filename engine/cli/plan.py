"""`duotail plan`: which device would do what, how fast that should be, and why."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine.bench.random_model import NAMES, RandomModel, random_draft
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_gpu_options,
    add_options,
    known_machine,
    load_command,
    probability,
)
from engine.cli.output import show, table
from engine.cli.plan_report import estimate_lines, estimate_report, memory_report, plan_report
from engine.commands import DraftChoice, KvType, Load, Mode, WeightFormat
from engine.devices.kept_estimates import KeptEstimates
from engine.errors import OutOfMemory
from engine.events import WayOut
from engine.events.models import Curve, CurvePoint
from engine.language import number, tr
from engine.language.units import gibibytes, memory, tokens_per_s
from engine.loading.alternatives import LoadFacts, alternatives
from engine.loading.planned_load import plan_load, planning_for
from engine.machine.facts import CPU, Machine
from engine.machine.memory import DeviceMemory
from engine.machine.speeds import Speeds
from engine.plan.plan import Plan
from engine.plan.planner import Planning

CURVE_POINTS = 9
_Sample = tuple[int, CurvePoint | None]
"""A ceiling in bytes, and what it gives."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = commands.add_parser("plan", help=tr("plan where a model would run, how fast, and why"))
    subject = parser.add_mutually_exclusive_group()
    add_options(subject, "--model")
    subject.add_argument(
        "--shape",
        metavar="S",
        help=tr("plan for a published shape, such as qwen2.5-1.5b, instead of a model"),
    )
    parser.add_argument(
        "--draft",
        default=DraftChoice.AUTO,
        metavar="auto|NAME|PATH|mtp|lookup|none",
        help=tr("the draft; with --shape one of {names}, where S is a published shape").format(
            names=NAMES
        ),
    )
    parser.add_argument(
        "--acceptance",
        type=probability,
        metavar="A",
        help=tr("with --shape: probability that a drafted token is accepted"),
    )
    add_options(parser, "--mode")
    parser.add_argument(
        "--format",
        choices=sorted({*map(str, WeightFormat), *FORMATS}),
        metavar="F",
        help=tr("weight format of the target"),
    )
    parser.add_argument(
        "--draft-format",
        default=SHAPE_FORMAT,
        choices=FORMATS,
        metavar="F",
        help=tr("with --shape: weight format of the draft"),
    )
    add_options(parser, "--kv", "--context", "--hardware", "--json")
    add_gpu_options(parser)
    parser.add_argument(
        "--curve", action="store_true", help=tr("also show the speed at several GPU memory budgets")
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Plan and print."""
    machine, speeds = known_machine(arguments.hardware, arguments.simulate_gpu, arguments.device)
    planning = _planning(arguments, machine, speeds)
    try:
        plan = planning.plan()
    except OutOfMemory as error:  # of a shape: models have said it when they were checked
        error.ways_out = _shape_ways_out(arguments, machine, speeds)
        raise
    points = list(_evenly(planning.curve())) if arguments.curve else []
    known = None if arguments.hardware else KeptEstimates().find(planning.models)
    told = report(plan, speeds, points) | {"estimates": estimate_report(known)}
    lines = *_table(plan, machine, speeds, points), *estimate_lines(known)
    return show(arguments, told, lines)


def report(plan: Plan, speeds: Speeds, points: list[_Sample]) -> dict[str, object]:
    """Return what `--json` prints; sizes in bytes, `measured` tells whether the speeds were."""
    return {
        **plan_report(plan),
        "tokens_per_s": plan.tokens_per_s,
        "plain_tokens_per_s": plan.plain_tokens_per_s,
        "measured": speeds.measured,
        "draft": plan.draft,
        "lookup": plan.lookup,
        "threads": plan.threads,
        "memory": {
            each.device: {**memory_report(each), "budget": each.budget} for each in plan.memory
        },
        "curve": [
            {
                "vram": ceiling,
                "tokens_per_s": None if point is None else point.tokens_per_s,
                "layers_on_gpu": 0 if point is None else point.layers_on_gpu,
            }
            for ceiling, point in points
        ],
    }


# ---- what is planned -------------------------------------------------------------------------


def _planning(arguments: argparse.Namespace, machine: Machine, speeds: Speeds) -> Planning:
    """Return the planner's question that the options ask.

    Raises:
        UserFixable: the model or shape is unknown, files are unusable, or a wish cannot be met.
    """
    if arguments.shape is None:
        arguments.format = arguments.format or WeightFormat.AUTO
        return plan_load(load_command(arguments), machine, speeds).planning
    return _shape_planning(arguments, _shape_command(arguments), machine, speeds)


def _shape_command(arguments: argparse.Namespace) -> Load:
    draft = arguments.draft
    named = draft not in {str(choice) for choice in DraftChoice}
    return Load(
        Path(arguments.shape),
        draft=Path(draft) if named else DraftChoice(draft),
        mode=Mode(arguments.mode),
        context=arguments.context,
        kv=KvType(arguments.kv),
        vram=arguments.vram,
        layers_on_gpu=arguments.layers_on_gpu,
    )


def _shape_target(
    arguments: argparse.Namespace, weights: str = WeightFormat.AUTO, kv: KvType | None = None
) -> RandomModel:
    """Return the shape with weights in a format; AUTO: that of --format, or the usual one."""
    wanted = arguments.format if weights == WeightFormat.AUTO else weights
    usual = wanted in (None, WeightFormat.AUTO, WeightFormat.STORED)
    kv = kv or KvType(arguments.kv)
    return RandomModel.published(arguments.shape, SHAPE_FORMAT if usual else wanted, kv)


def _shape_planning(
    arguments: argparse.Namespace, load: Load, machine: Machine, speeds: Speeds
) -> Planning:
    """Return the planner's question for a shape that is loaded as `load` says."""
    target, drafts = _shape_target(arguments, load.weights, load.kv), []
    if isinstance(load.draft, Path) and load.mode is not Mode.PLAIN:
        drafts = [random_draft(target, arguments.draft, arguments.draft_format).facts]
    return planning_for(load, target.facts, drafts, machine, speeds, arguments.acceptance)


def _shape_ways_out(
    arguments: argparse.Namespace, machine: Machine, speeds: Speeds
) -> tuple[WayOut, ...]:
    """Return what would fit of a shape, as loading does for a model in files."""
    facts = _shape_target(arguments).facts
    formats = [
        each
        for each in (WeightFormat.Q8, WeightFormat.Q4)
        if _shape_target(arguments, each).facts.footprint.weight_bytes
        < facts.footprint.weight_bytes
    ]
    device = machine.usable[0].name if machine.usable else ""
    known = LoadFacts(
        len(facts.footprint.blocks), facts.max_positions, formats, device, smaller_kv=True
    )
    found = alternatives(
        _shape_command(arguments),
        known,
        lambda load: _shape_planning(arguments, load, machine, speeds).plan(),
    )
    return tuple(replace(way, load=_as_typed(way.load, arguments)) for way in found)


def _as_typed(load: Load, arguments: argparse.Namespace) -> Load:
    """Return a load with the given options that stay as they are."""
    given = arguments.format
    same = load.weights is WeightFormat.AUTO and given in set(WeightFormat)
    weights = WeightFormat(given) if same else load.weights
    return replace(
        load, weights=weights, simulate_gpu=arguments.simulate_gpu, device=arguments.device
    )


def _evenly(curve: Curve) -> Iterator[_Sample]:
    """Yield ceilings from nothing to all that an accelerator has."""
    for step in range(CURVE_POINTS if curve.limit else 1):
        ceiling = curve.limit * step // (CURVE_POINTS - 1)
        yield ceiling, curve.at(ceiling)


# ---- for people ------------------------------------------------------------------------------


def _table(plan: Plan, machine: Machine, speeds: Speeds, points: list[_Sample]) -> Iterator[str]:
    names = {found.device: found.name for found in machine.accelerators} | {CPU: tr("Memory")}
    yield _speed(plan, speeds)
    yield ""
    heads = tr("weights"), tr("draft"), tr("KV cache"), tr("features"), tr("workspace")
    more = tr("driver"), tr("all"), tr("of")
    rows = [_memory(names.get(each.device, each.device), each) for each in plan.memory]
    yield from table([("", *heads, *more), *rows])
    if points:
        yield ""
        yield from table([(tr("budget"), tr("tokens/s"), tr("layers")), *map(_point, points)])
    yield ""
    yield from plan.reasons


def _speed(plan: Plan, speeds: Speeds) -> str:
    said = tr(
        "{mode}: {rate} tokens/s expected, {plain} without a draft; context of {context} tokens"
    )
    if not speeds.measured:
        said = tr(
            "{mode}: about {rate} tokens/s, {plain} without a draft (estimated; this "
            "computer is not measured yet); context of {context} tokens"
        )
    return said.format(
        mode=plan.mode,
        rate=tokens_per_s(plan.tokens_per_s or 0.0, about=True),
        plain=tokens_per_s(plan.plain_tokens_per_s or 0.0, about=True),
        context=number(plan.context, ",d"),
    )


def _memory(name: str, each: DeviceMemory) -> tuple[str, ...]:
    models, work = (each.target, each.draft, each.kv, each.features), each.workspace
    every = (*models, work, each.runtime, each.total, each.budget)
    return (name, *(memory(nbytes) if nbytes else "" for nbytes in every))


def _point(sample: _Sample) -> tuple[str, ...]:
    ceiling, point = sample
    budget = gibibytes(ceiling / 2**30)
    if point is None:
        return budget, "", ""
    return budget, tokens_per_s(point.tokens_per_s, about=True), number(point.layers_on_gpu, "d")
