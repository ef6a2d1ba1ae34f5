"""`duotail bench speculate`: speculative against plain decoding, by category, beside a peer."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import asdict

from engine.bench.harness import ALL, PLAIN, Figures, MeasuredStrategy, figures
from engine.bench.pair_writer import PairWriter, without_draft
from engine.bench.peer.process import find_interpreter
from engine.bench.peer.side import PeerSettings, peer_writer
from engine.cli.bench_prompts import (
    add_prompt_options,
    chosen_prompts,
    measured_prompts,
    or_dash,
)
from engine.cli.columns import left, right
from engine.cli.exit_code import ExitCode
from engine.cli.options import add_model_options, add_options, load_pair, sampling
from engine.errors import UserFixable
from engine.language import number, tr

DRAFT, PEER = "draft", "llama.cpp"

_WIDTH = 14
"""Width of every column but the first."""


def add_parser(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-command."""
    parser = kinds.add_parser(
        "speculate", help=tr("measure speculative decoding against plain decoding")
    )
    add_model_options(parser)
    add_prompt_options(parser, repeat=1)
    parser.add_argument(
        "--no-shared-noise",
        action="store_true",
        help=tr("rank draft tokens without the target's Gumbel noise"),
    )
    add_options(parser, "--peer")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> ExitCode:
    """Measure and print."""
    prompts, params = chosen_prompts(arguments), sampling(arguments)
    if arguments.peer is not None:
        find_interpreter()  # before a model is loaded
    pair = load_pair(arguments)
    if not pair.drafts:
        raise UserFixable(
            tr("Nothing drafts here, so there is nothing to compare."), tr("Choose a draft.")
        )
    plain = PairWriter(without_draft(pair))
    draft = PairWriter(pair, share_noise=not arguments.no_shared_noise)
    strategies = {PLAIN: MeasuredStrategy(plain), DRAFT: MeasuredStrategy(draft)}
    settings = None
    with ExitStack() as stack:
        if arguments.peer is not None:
            peer = stack.enter_context(peer_writer(plain))
            strategies[PEER], settings = MeasuredStrategy(peer), peer.settings
        measured = measured_prompts(strategies, prompts, params, arguments)
    found = figures(strategies, measured)
    beside = figures(strategies, measured, PEER) if settings else {}
    slowest = min((name for name in found if name != ALL), key=lambda n: found[n][DRAFT].speedup)
    if arguments.json:
        rows = {name: _row(found[name], beside.get(name)) for name in found}
        overall = rows.pop(ALL) | {
            "skipped": len(prompts) - len(measured),
            "slowest_category": slowest,
            "slowest_speedup": found[slowest][DRAFT].speedup,
        }
        peer_settings = {"peer": asdict(settings)} if settings else {}
        report = {"categories": rows, "overall": overall, **peer_settings}
        sys.stdout.write(json.dumps(report) + "\n")
    else:
        sys.stdout.write(_table(found, beside) + _summary(found[ALL][DRAFT], slowest, settings))
    return ExitCode.DONE


def _row(found: dict[str, Figures], beside: dict[str, Figures] | None) -> dict[str, object]:
    """A category in JSON: what the draft brings, and both compared with the peer."""
    row = asdict(found[DRAFT]) | {"plain_tokens_per_s": found[PLAIN].tokens_per_s}
    if beside is not None:
        row |= {
            "peer_tokens_per_s": beside[PEER].tokens_per_s,
            "ratio_to_peer": beside[DRAFT].speedup,
            "plain_ratio_to_peer": beside[PLAIN].speedup,
        }
    return row


def _table(found: dict[str, dict[str, Figures]], beside: dict[str, dict[str, Figures]]) -> str:
    head = [
        tr("prompts"),
        tr("plain/s"),
        tr("draft/s"),
        tr("speed-up"),
        tr("in total"),
        tr("accept. length"),
        tr("exact"),
    ]
    if beside:
        head += [tr("peer/s"), tr("to peer")]
    lines = [left(tr("category"), 16) + "".join(right(name, _WIDTH) for name in head)]
    for name, rows in found.items():
        draft = rows[DRAFT]
        cells = [
            str(draft.prompts),
            number(rows[PLAIN].tokens_per_s, ".1f"),
            number(draft.tokens_per_s, ".1f"),
            number(draft.speedup, ".2f") + "x",
            number(draft.total_speedup, ".2f") + "x",
            or_dash(draft.acceptance_length, ".2f"),
            tr("yes") if draft.exact else tr("NO"),
        ]
        if beside:
            cells.append(number(beside[name][PEER].tokens_per_s, ".1f"))
            cells.append(number(beside[name][DRAFT].speedup, ".2f") + "x")
        title = tr("overall") if name == ALL else name
        lines.append(left(title, 16) + "".join(right(cell, _WIDTH) for cell in cells))
    return "\n".join(lines) + "\n"


def _summary(draft: Figures, slowest: str, settings: PeerSettings | None) -> str:
    """Return the shares of a round's time, and the settings the peer was measured with."""
    said = tr(
        "T(1) {t1} ms, c {c}, {drafted} tokens drafted per round; of the time drafting took "
        "{draft}, verification {verify}, the rest {rest}; slowest category: {slowest}"
    ).format(
        t1=number(draft.t1_ms, ".2f"),
        c=or_dash(draft.c, ".3f"),
        drafted=or_dash(draft.drafted_per_round, ".1f"),
        draft=number(draft.draft_share, ".0%"),
        verify=number(draft.verify_share, ".0%"),
        rest=number(draft.rest_share, ".0%"),
        slowest=slowest,
    )
    return f"{said}\n" + (f"{settings}\n" if settings else "")
