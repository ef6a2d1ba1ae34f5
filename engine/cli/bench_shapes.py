"""`duotail bench shapes`: what speculative decoding brings on a published shape."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from engine.bench.lanes import overlap
from engine.bench.random_model import NAMES, SMALL, RandomPair
from engine.bench.recipes import FORMATS, SHAPE_FORMAT
from engine.bench.shape_answers import DEPTHS, ShapeOptions
from engine.bench.shape_speed import MemoryUse, Placing, ShapeSpeed, measure_shape, plan_models
from engine.cli.exit_code import ExitCode
from engine.cli.options import (
    add_gpu_options,
    add_options,
    known_machine,
    one_or_more,
    probability,
)
from engine.cli.output import show, table
from engine.cli.plan_report import memory_report, plan_report
from engine.commands import KvType, Mode
from engine.language import number, tr


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "shapes",
        help=tr("measure speculative decoding on random weights, with a scripted acceptance"),
    )
    add_options(parser, "--shape", required=True)
    add_options(parser, "--mode")
    parser.add_argument(
        "--acceptance",
        type=probability,
        default=0.8,
        metavar="A",
        help=tr("probability that a drafted token is accepted"),
    )
    parser.add_argument(
        "--depth",
        type=one_or_more,
        metavar="D",
        help=tr("measure only this draft depth (default: several, and the controller's choice)"),
    )
    _add_models(parser)
    add_gpu_options(parser)
    add_options(parser, "--kv", "--hardware", "--threads")
    add_options(parser, "--tokens", default=64)
    parser.add_argument(
        "--runs",
        type=one_or_more,
        default=5,
        metavar="N",
        help=tr("measure this many answers in every mode"),
    )
    parser.add_argument(
        "--peer",
        choices=["llama.cpp"],
        help=tr("estimate this program's speed too, from measurements in the same run"),
    )
    add_options(parser, "--json")
    parser.set_defaults(run=run)


def _add_models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format",
        default=SHAPE_FORMAT,
        choices=FORMATS,
        help=tr("weight format of the target"),
    )
    parser.add_argument(
        "--draft",
        default=SMALL,
        metavar=NAMES,
        help=tr("random draft: a published shape or a kind of feature head"),
    )
    parser.add_argument(
        "--draft-format",
        choices=FORMATS,
        metavar="F",
        help=tr("weight format of the draft (default: q8_0, of an MTP head the target's)"),
    )
    parser.add_argument(
        "--trees",
        action="store_true",
        help=tr("draft trees that hold the scripted chain, not the chain alone"),
    )


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    pair = RandomPair.published(
        arguments.shape,
        arguments.format,
        arguments.draft,
        arguments.draft_format,
        KvType(arguments.kv),
    )
    mode = Mode(arguments.mode)
    options = ShapeOptions(
        tokens=max(arguments.tokens, 2),  # the speed counts from the first token to the last
        runs=arguments.runs,
        acceptance=arguments.acceptance,
        mode=mode,
        depths=(arguments.depth,) if arguments.depth else DEPTHS,
        trees=arguments.trees,
    )
    placing = Placing(mode, arguments.vram, arguments.layers_on_gpu)
    known = known_machine(arguments.hardware, arguments.simulate_gpu, arguments.device)
    plan = plan_models(known, pair, placing, options)
    measured = measure_shape(
        pair,
        options,
        plan,
        known[0],
        threads=arguments.threads,
        peer=arguments.peer is not None,
    )
    return show(arguments, report(measured, options), _table(measured))


def report(measured: ShapeSpeed, options: ShapeOptions) -> dict[str, object]:
    """Return the report for `--json`; the headline is the controller's speed."""
    plain = measured.plain_tokens_per_s
    auto, best = measured.auto, measured.best_depth
    draft, plan = measured.draft, measured.plan
    return {
        "plain_tokens_per_s": plain,
        "tokens_per_s": auto.tokens_per_s if auto else plain,
        "speedup": auto.speedup if auto else 1.0,
        "t_verify_ms": {rows: 1e3 * seconds for rows, seconds in measured.verify.items()},
        "t_draft_ms": None if draft is None else 1e3 * draft,
        "c": None if draft is None else draft / measured.verify[1],
        "memory": {device: _use(use) for device, use in measured.memory.items()},
        "overlap": overlap(measured.rounds) if auto else None,
        "ttft_ms": _milliseconds(measured.first_token.drafting),
        "plain_ttft_ms": _milliseconds(measured.first_token.plain),
        "serial_ttft_ms": _milliseconds(measured.first_token.in_turns),
        "head_reads_ms": _milliseconds(measured.first_token.head_reads),
        "predicted_tokens_per_s": plan.tokens_per_s,
        "predicted_plain_tokens_per_s": plan.plain_tokens_per_s,
        "plan": plan_report(plan),
        "exact": measured.exact,
        "acceptance": options.acceptance,
        "auto": asdict(auto) if auto else None,
        "depths": {depth: asdict(speed) for depth, speed in measured.by_depth.items()},
        "best_depth": best,
        "attainable": asdict(measured.attainable) if measured.attainable else None,
        "tokens": options.tokens,
        "runs": options.runs,
        "signature": measured.signature,
        **_beside_peer(measured),
    }


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds


def _beside_peer(measured: ShapeSpeed) -> dict[str, object]:
    """Return the best speed that the peer's times allow (not measured), and ours against it."""
    peer = measured.peer
    if peer is None:
        return {}
    best = measured.by_depth[measured.best_depth].tokens_per_s if measured.best_depth else None
    speed = peer.attainable.tokens_per_s
    return {
        "peer": {
            "t_verify_ms": {rows: 1e3 * seconds for rows, seconds in peer.verify.items()},
            "t_draft_ms": 1e3 * peer.draft,
            "attainable": asdict(peer.attainable),
            "settings": asdict(peer.settings),
        },
        "ratio_to_peer_attainable": measured.auto.tokens_per_s / speed if measured.auto else None,
        "best_ratio_to_peer_attainable": best / speed if best else None,
    }


def _use(use: MemoryUse) -> dict[str, object]:
    """Return the bytes of one device as planned, as in its ledger, and as the system counts."""
    return {
        "predicted": memory_report(use.predicted),
        "ledger": memory_report(use.ledger),
        "touched": use.touched,
        "measured": use.measured,
        "driver": use.driver,
        "peak": use.peak,
        "budget": use.budget,
        "kept_to_budget": use.kept_to_budget,
    }


def _table(measured: ShapeSpeed) -> list[str]:
    plain = measured.plain_tokens_per_s
    rows = [(tr("plain"), plain)]
    if measured.auto:
        rows.append((tr("controller"), measured.auto.tokens_per_s))
    for depth, speed in measured.by_depth.items():
        way = tr("depth {depth}, the best") if depth == measured.best_depth else tr("depth {depth}")
        rows.append((way.format(depth=depth), speed.tokens_per_s))
    peer = measured.peer
    for name, could in (
        (tr("attainable, depth {depth}"), measured.attainable),
        (tr("llama.cpp at best, depth {depth}"), peer.attainable if peer else None),
    ):
        if could:
            rows.append((name.format(depth=could.depth), could.tokens_per_s))
    cells = [(name, number(n, ".2f"), number(n / plain, ".2f") + "x") for name, n in rows]
    lines = table([(tr("strategy"), tr("tokens/s"), tr("speed-up")), *cells])
    lines.append(_times("", measured.verify, measured.draft))
    if peer:
        lines += [_times("llama.cpp: ", peer.verify, peer.draft), str(peer.settings)]
    lines.append(tr("texts equal") if measured.exact else tr("TEXTS DIFFER"))
    return lines


def _times(whose: str, verify: dict[int, float], draft: float | None) -> str:
    rows = "  ".join(f"{n}: {number(1e3 * seconds, '.1f')}" for n, seconds in verify.items())
    told = tr("verification of n rows, ms   {rows}").format(rows=rows)
    if draft is not None:
        told += tr("; drafting a token {time:.2f} ms").format(time=1e3 * draft)
    return whose + told
