"""`duotail bench speculate|drafters`: whole answers, by what drafts, beside plain decoding."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from engine.bench.harness import ALL, PLAIN, Figures, MeasuredStrategy, figures, measure
from engine.bench.pair_writer import Fixed, LookupUse, PairWriter, strategies_of, without_draft
from engine.bench.peer.process import DRAFTING, find_interpreter
from engine.bench.peer.process import PLAIN as ALONE
from engine.bench.peer.side import PeerWriter, drafting_peer_writer, peer_writer
from engine.bench.prompts import BenchPrompt, first_of_each_category, read_prompts
from engine.cli.exit_code import ExitCode
from engine.cli.grammar_option import add_grammar_options, grammar_of
from engine.cli.options import (
    add_model_options,
    add_options,
    add_sampling_options,
    load_pair,
    one_or_more,
    sampling,
)
from engine.cli.output import or_dash, show, show_progress, table
from engine.commands import DraftChoice, Load
from engine.errors import UserFixable
from engine.hub.shelf.names import model_named
from engine.language import number, tr
from engine.language.units import tokens_per_s
from engine.loading.devices import DeviceManager
from engine.loading.load import LoadedPair, load
from engine.loading.planned_load import plan_load
from engine.request import SamplingParams

DRAFT, PEER, DRAFTING_PEER = "draft", "llama.cpp", "llama.cpp-draft"
_MAX_TOKENS = 128

Found = dict[str, dict[str, Figures]]
"""Figures by category and strategy."""


def add_parsers(kinds: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the sub-commands."""
    parser = kinds.add_parser(
        "speculate", help=tr("measure speculative decoding against plain decoding")
    )
    add_model_options(parser)
    _add_prompt_options(parser, repeat=1)
    parser.add_argument(
        "--no-shared-noise",
        action="store_true",
        help=tr("rank draft tokens without the target's Gumbel noise"),
    )
    parser.add_argument(
        "--peer", choices=[PEER, DRAFTING_PEER],
        help=tr("also measure this program, in the same run: plainly, or with the same draft"),
    )  # fmt: skip
    parser.set_defaults(run=run_speculate)

    parser = kinds.add_parser("drafters", help=tr("compare drafts of one model"))
    add_options(parser, "--model")
    parser.add_argument(
        "--draft", dest="drafts", action="append", required=True, metavar="NAME|PATH|lookup",
        help=tr("a draft to compare; may be given several times"),
    )  # fmt: skip
    parser.add_argument(
        "--lookup", type=LookupUse, choices=[*LookupUse], default=LookupUse.BOTH,
        help=tr("measure drafts with lookup, without it, or both (default)"),
    )  # fmt: skip
    _add_prompt_options(parser, repeat=3)
    parser.add_argument(
        "--depth", type=_budget, action="append", metavar="auto|N|NxW",
        help=tr(
            "draft chains of N tokens, or trees of N levels and W tokens a level (default: auto, "
            "the controller chooses every round); may be given several times"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--width", type=one_or_more, default=1, metavar="N",
        help=tr("tree width for every --depth without one"),
    )  # fmt: skip
    add_options(parser, "--json")
    parser.set_defaults(run=run_drafters)


# ---- prompts ---------------------------------------------------------------------------------


def _add_prompt_options(parser: argparse.ArgumentParser, repeat: int) -> None:
    """Declare --prompts, --limit, --repeat, --system, a grammar and how tokens are drawn."""
    parser.add_argument(
        "--prompts", type=Path, action="append", required=True, metavar="FILE.jsonl|FILE.txt",
        help=tr("file of prompts, JSON Lines or one prompt a line; may be given several times"),
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=one_or_more, action="append", metavar="N",
        help=tr("use only the first N prompts of each category; repeat for each further file"),
    )  # fmt: skip
    parser.add_argument(
        "--runs", "--repeat", dest="repeat", type=one_or_more, default=repeat, metavar="N",
        help=tr("answer every prompt this many times in every mode"),
    )  # fmt: skip
    add_options(parser, "--system")
    add_grammar_options(parser)
    add_sampling_options(parser)


def _prompts(arguments: argparse.Namespace) -> list[BenchPrompt]:
    """Return the prompts that the options name; the last limit holds for all files that follow.

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
    told = tr("{done}/{total} prompts")
    measured = measure(
        strategies,
        prompts,
        params,
        max_tokens=arguments.max_tokens or _MAX_TOKENS,
        repeat=arguments.repeat,
        system=arguments.system,
        grammar=grammar_of(arguments),
        progress=lambda done, total: show_progress(told.format(done=done, total=total) + " "),
    )
    if not measured:
        raise UserFixable(
            tr("None of the prompts could be measured."),
            tr("Use shorter prompts, a longer context or more tokens."),
        )
    return measured


# ---- speculate -------------------------------------------------------------------------------


def run_speculate(arguments: argparse.Namespace) -> ExitCode:
    """Measure one draft, by category, beside a peer if asked, and print."""
    prompts, params = _prompts(arguments), sampling(arguments)
    if arguments.peer is not None:  # before a model is loaded
        if grammar_of(arguments) is not None:
            raise UserFixable(
                tr("llama.cpp is measured without a grammar only."),
                tr("Leave out --peer, or --schema and --grammar."),
            )
        find_interpreter(DRAFTING if arguments.peer == DRAFTING_PEER else ALONE)
    pair = load_pair(arguments)
    if not pair.drafts:
        raise UserFixable(
            tr("There is no draft, so there is nothing to compare."), tr("Choose a draft.")
        )
    plain = PairWriter(without_draft(pair))
    draft = PairWriter(pair, share_noise=not arguments.no_shared_noise)
    strategies = {PLAIN: MeasuredStrategy(plain), DRAFT: MeasuredStrategy(draft)}
    settings = None
    with ExitStack() as stack:
        if arguments.peer is not None:
            peer = stack.enter_context(_peer(arguments, plain))
            strategies[PEER], settings = MeasuredStrategy(peer), peer.settings
        measured = measured_prompts(strategies, prompts, params, arguments)
    found = figures(strategies, measured)
    beside = figures(strategies, measured, PEER) if settings else {}
    categories = [name for name in found if name != ALL] or [ALL]  # one may have that very name
    slowest = min(categories, key=lambda name: found[name][DRAFT].speedup)
    rows = {name: _row(found[name], beside.get(name)) for name in found}
    overall = rows.pop(ALL) | {
        "skipped": len(prompts) - len(measured),
        "slowest_category": slowest,
        "slowest_speedup": found[slowest][DRAFT].speedup,
    }
    answer = {"categories": rows, "overall": overall}
    if settings:
        answer["peer"] = asdict(settings)
    lines = [*_categories(found, beside), _summary(found[ALL][DRAFT], slowest)]
    return show(arguments, answer, lines + ([str(settings)] if settings else []))


def _peer(arguments: argparse.Namespace, plain: PairWriter) -> AbstractContextManager[PeerWriter]:
    if arguments.peer == PEER:
        return peer_writer(plain)
    draft = plain.pair.command.draft
    if isinstance(draft, DraftChoice):
        raise UserFixable(
            tr("llama.cpp drafts with two GGUF files only."), tr("Name a draft with --draft.")
        )
    return drafting_peer_writer(plain, draft)


def _row(found: dict[str, Figures], beside: dict[str, Figures] | None) -> dict[str, object]:
    """Return a category in JSON: what the draft brings, and both compared with the peer."""
    row = asdict(found[DRAFT]) | {"plain_tokens_per_s": found[PLAIN].tokens_per_s}
    if beside is not None:
        row |= {
            "peer_tokens_per_s": beside[PEER].tokens_per_s,
            "ratio_to_peer": beside[DRAFT].speedup,
            "plain_ratio_to_peer": beside[PLAIN].speedup,
        }
    return row


def _categories(found: Found, beside: Found) -> list[str]:
    heads = [
        tr("category"), tr("prompts"), tr("plain/s"), tr("draft/s"), tr("speed-up"), tr("in total"),
        tr("accept. length"), tr("exact"),
    ]  # fmt: skip
    rows = [heads + ([tr("peer/s"), tr("to peer")] if beside else [])]
    for name, category in found.items():
        draft = category[DRAFT]
        cells = [
            tr("overall") if name == ALL else name,
            str(draft.prompts),
            tokens_per_s(category[PLAIN].tokens_per_s),
            tokens_per_s(draft.tokens_per_s),
            _times(draft.speedup),
            _times(draft.total_speedup),
            or_dash(draft.acceptance_length, ".2f"),
            _yes_or_no(draft),
        ]
        if beside:
            peer = beside[name]
            cells += [tokens_per_s(peer[PEER].tokens_per_s), _times(peer[DRAFT].speedup)]
        rows.append(cells)
    return table(rows)


def _summary(draft: Figures, slowest: str) -> str:
    """Return the shares of a round's time."""
    return tr(
        "T(1) {t1} ms, c {c}, {drafted} tokens drafted per round; time: drafting "
        "{draft}, verification {verify}, other {rest}; slowest category: {slowest}"
    ).format(
        t1=number(draft.t1_ms, ".2f"),
        c=or_dash(draft.c, ".3f"),
        drafted=or_dash(draft.drafted_per_round, ".1f"),
        draft=number(draft.draft_share, ".0%"),
        verify=number(draft.verify_share, ".0%"),
        rest=number(draft.rest_share, ".0%"),
        slowest=slowest,
    )


# ---- drafters --------------------------------------------------------------------------------


def run_drafters(arguments: argparse.Namespace) -> ExitCode:
    """Measure everything that can draft for a model, side by side, and print."""
    prompts, params = _prompts(arguments), sampling(arguments)
    budgets = [_widened(each, arguments.width) for each in arguments.depth or [None]]
    strategies = strategies_of(_pairs(arguments), budgets, arguments.lookup)
    measured = measured_prompts(strategies, prompts, params, arguments)
    found = figures(strategies, measured)
    plain = [runs[0].ended for runs in strategies[PLAIN].answers]
    answer = {
        "figures": {
            category: {name: asdict(row) for name, row in rows.items()}
            for category, rows in found.items()
        },
        "draft_costs": {name: row.c for name, row in found[ALL].items()},
        "ended": sum(plain) / len(plain),
        "skipped": len(prompts) - len(measured),
    }
    return show(arguments, answer, _ranking(found))


def _budget(text: str) -> Fixed | None:
    """Parse `--depth`; None: the controller's."""
    if text == "auto":
        return None
    depth, times, wide = text.partition("x")
    return Fixed(one_or_more(depth), one_or_more(wide) if times else 1)


def _widened(budget: Fixed | None, wide: int) -> Fixed | None:
    return replace(budget, width=wide) if budget and budget.width == 1 else budget


def _pairs(arguments: argparse.Namespace) -> list[tuple[str, LoadedPair]]:
    manager = DeviceManager()
    machine = manager.look(None)
    speeds = manager.speeds(machine)
    target, pairs = model_named(arguments.model), []
    for name, said in zip(_names(arguments.drafts), arguments.drafts, strict=True):
        sources = (DraftChoice.MTP, DraftChoice.LOOKUP)
        draft = DraftChoice(said) if said in sources else model_named(said)
        command = Load(target, draft=draft)
        pairs.append((name, load(plan_load(command, machine, speeds), manager.open)))
    return pairs


def _names(drafts: Sequence[str]) -> list[str]:
    """Return the last part of each path, where no other draft has the same."""
    short = [Path(said).name.removesuffix(".gguf") or said for said in drafts]
    return [
        name if short.count(name) == 1 else said for name, said in zip(short, drafts, strict=True)
    ]


def _ranking(found: Found) -> list[str]:
    """Return the strategies by speed, and the speed-up of each by category under its rank."""
    ranked = sorted(found[ALL], key=lambda name: -found[ALL][name].speedup)
    heads = [
        "", "tok/s", tr("speed-up"), tr("in total"), tr("accept. length"), tr("drafted"), "c",
        tr("draft"), tr("verify"), tr("rest"), tr("exact"),
    ]  # fmt: skip
    strategies = [
        [f"{rank:2} {name}", *_cells(found[ALL][name])] for rank, name in enumerate(ranked, 1)
    ]
    speeds = [
        [category, *(number(rows[name].speedup, ".2f") for name in ranked)]
        for category, rows in found.items()
    ]
    ranks = [tr("speed-up"), *map(str, range(1, len(ranked) + 1))]
    return [*table([heads, *strategies]), "", *table([ranks, *speeds])]


def _cells(row: Figures) -> list[str]:
    return [
        tokens_per_s(row.tokens_per_s),
        _times(row.speedup),
        _times(row.total_speedup),
        or_dash(row.acceptance_length, ".2f"),
        or_dash(row.drafted_per_round, ".1f"),
        or_dash(row.c, ".3f"),
        number(row.draft_share, ".0%"),
        number(row.verify_share, ".0%"),
        number(row.rest_share, ".0%"),
        _yes_or_no(row),
    ]


def _times(factor: float) -> str:
    return number(factor, ".2f") + "x"


def _yes_or_no(row: Figures) -> str:
    return tr("yes") if row.exact else tr("NO")
