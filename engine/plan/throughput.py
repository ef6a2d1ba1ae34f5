"""Throughput of every strategy to run a target; memory does not matter here.

A strategy is a drafter, its device and a loop; each is computed for all cuts of the target.
Further down: the gain from drafting, as tokens per second of the serial and the parallel loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from engine.backend.native.workspace import WIDTH
from engine.commands import Mode
from engine.machine.facts import CPU, Accelerator, Host
from engine.machine.reached import PlacementKey, PlacementKind, Reached
from engine.machine.speeds import DeviceSpeeds
from engine.plan import both_lanes
from engine.plan.cost import DEEPEST, ROWS, AcceleratorLane, Forwards, slower
from engine.plan.facts import HEAD_WIDTH, DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Numbers
from engine.plan.plan import (
    BUCKETS,
    DEPTH,
    DEPTH_OF_FEW_CORES,
    FEW_CORES,
    NODES,
    NODES_OF_FEW_CORES,
    WIDTHS,
    Expectation,
)

LOOKUP_ACCEPTANCE = 0.1
"""Acceptance of tokens that the conversation itself proposes, over all kinds of answers."""
LOOKUP_S = 5e-6
CHEAP_BYTES = 64 << 20
"""A draft of so many bytes is loaded anyway: what it brings is measured sooner than predicted."""
_PREFERRED = 1 + 1e-9
_WIDE = 4
"""Nodes of a step that tell what breadth costs."""
_AHEAD, _AGAIN = 0.9, 2
"""A head that drafts while its target verifies: its acceptance as a share of that in turns, since
beyond the verified tokens it goes by its own outputs; and how often it computes a node, since every
commit brings better features."""
_NEW_FEATURES = 5
"""Tokens of a usual round, whose features a head gets in the next one."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A drafter and its timing; lookup alone has a `draft_device`, but `draft` None."""

    draft: int | None
    draft_device: str | None
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class StrategyThroughput:
    """A strategy, and tokens per second for every cut.

    Attributes:
        drafting: with drafts in every round.
        rate: rounds without drafts where these are faster, unless drafting is forced; corrected by
            what answers have reached.
        draft_s: seconds of a drafted token, or of a level of them.
    """

    strategy: Strategy
    drafting: ExpectedThroughput
    rate: Numbers
    draft_s: float


class Throughput:
    """All strategies of one target on the CPU, and on one accelerator if there is one.

    Args:
        lane: of the accelerator.
        cpu: speeds of the CPU.
        drafts: models that may draft; where there are none, strategies with drafts do not count.
        reached: by answers of these models, the newest first.

    Attributes:
        alone: tokens per second of the target alone, for every cut.
    """

    def __init__(
        self,
        host: Host,
        accelerator: Accelerator | None,
        lane: AcceleratorLane | None,
        cpu: DeviceSpeeds,
        target: ModelFacts,
        drafts: Sequence[DraftFacts],
        wish: Wish,
        reached: Sequence[Reached] = (),
    ) -> None:
        cpu = cpu.beside(target.footprint.weight_bytes)
        self.host, self.accelerator, self._lane, self._cpu = host, accelerator, lane, cpu
        self.target, self.drafts, self.wish = target, drafts, wish
        self._tokens = min(wish.tokens, wish.context or target.max_positions)
        self._verify = Forwards(target.footprint, cpu, lane, self._tokens).seconds(ROWS)
        self.alone = 1 / self._verify[0]
        predicted = [self._of_strategy(each) for each in self._strategies()]
        self.found = _corrected(predicted, reached)

    def _strategies(self) -> list[Strategy]:
        wish, found = self.wish, self.accelerator
        if wish.mode is Mode.PLAIN or self.target.other_family:
            return [Strategy(None, None)]
        strategies = [Strategy(None, CPU if wish.lookup else None)]
        if wish.forced and self.drafts:
            strategies = []
        for index in range(len(self.drafts)):
            strategies.append(Strategy(index, CPU))
            if (
                found is not None
                and wish.mode is not Mode.CPU
                and self.drafts[index].runs_on(found)
            ):
                strategies.append(Strategy(index, found.device))
            if found is not None and wish.parallel and wish.mode in (Mode.AUTO, Mode.DUO):
                strategies.append(Strategy(index, CPU, parallel=True))
        return strategies

    def _of_strategy(self, strategy: Strategy) -> StrategyThroughput:
        draft_s = self._draft_seconds(strategy)
        drafting = self._drafting(strategy, draft_s)
        rate = drafting.tokens_per_s
        if not (self.wish.forced or strategy.parallel):
            rate = np.maximum(rate, self.alone)
        if strategy.draft is not None:
            held = self.drafts[strategy.draft].model.footprint
            rate = rate * _PREFERRED if held.weight_bytes <= CHEAP_BYTES else rate
        return StrategyThroughput(strategy, drafting, rate, draft_s)

    def _drafting(self, strategy: Strategy, draft_s: float) -> ExpectedThroughput:
        if strategy.draft_device is None:
            return plain(self._verify)
        if strategy.draft is None:
            return serial(self._verify, draft_s, LOOKUP_ACCEPTANCE)
        draft = self.drafts[strategy.draft]
        if draft.width > 1 and not strategy.parallel:
            begin = self._forwards(strategy, draft).call(_NEW_FEATURES)
            return in_trees(self._verify, draft_s, begin, draft.acceptance, draft.width)
        in_turns = serial(self._verify, draft_s, draft.acceptance)
        if not strategy.parallel:
            return in_turns
        steps = self._forwards(strategy, draft).seconds((1, _WIDE))[:, -1]
        breadth = float(steps[1] / steps[0] - 1) / (_WIDE - 1)
        acceptance = draft.acceptance
        if draft.is_head:
            draft_s, acceptance = draft_s * _AGAIN, acceptance * _AHEAD
        both = parallel(self._verify, draft_s, breadth, acceptance)
        # Where the CPU verifies as well it has no time to draft meanwhile.
        alone = np.arange(len(both.depth)) == len(both.depth) - 1
        return ExpectedThroughput(
            np.where(alone, both.tokens_per_s, in_turns.tokens_per_s),
            np.where(alone, both.depth, in_turns.depth),
        )

    def _draft_seconds(self, strategy: Strategy) -> float:
        if strategy.draft is None:
            return LOOKUP_S
        draft = self.drafts[strategy.draft]
        forwards = self._forwards(strategy, draft)
        at_once = self._lane is not None and self._lane.returns_logits
        whole_levels = draft.is_head or draft.width > 1
        if not strategy.parallel and (whole_levels or (at_once and strategy.draft_device != CPU)):
            return forwards.level(draft.width)  # nothing comes to the host in between
        return float(forwards.seconds([1])[0, -1])

    def expected(self, strategy: Strategy, cut: int) -> Expectation | None:
        """Return what decoding may expect of a strategy at a cut; None where nothing drafts."""
        if strategy.draft_device is None:
            return None
        rows, most = self._verify[:, cut], len(self._verify)
        row = (rows[-1] - rows[most // 2 - 1]) / (most - most // 2)  # of many
        verify = [
            float(rows[min(bucket, most) - 1] + max(bucket - most, 0) * row) for bucket in BUCKETS
        ]
        cpu_verifies = self._lane is None or cut < self._verify.shape[1] - 1
        few = cpu_verifies and self.host.cores <= FEW_CORES
        first = (NODES_OF_FEW_CORES, DEPTH_OF_FEW_CORES) if few else (NODES, DEPTH)
        if strategy.draft is None:
            return Expectation(tuple(verify), (LOOKUP_S,) * len(WIDTHS), LOOKUP_ACCEPTANCE, *first)
        draft = self.drafts[strategy.draft]
        forwards, widest = self._forwards(strategy, draft), HEAD_WIDTH if draft.is_head else WIDTH
        levels = tuple(forwards.level(width) for width in WIDTHS if width <= widest)
        return Expectation(tuple(verify), levels, draft.acceptance, *first)

    def _forwards(self, strategy: Strategy, draft: DraftFacts) -> Forwards:
        lane, cpu = None if strategy.draft_device == CPU else self._lane, self._cpu
        if strategy.parallel and self.accelerator is not None and self.accelerator.takes_core:
            cpu = _without_a_core(self.host, cpu)
        return Forwards(draft.model.footprint, cpu, lane, self._tokens)


def key_of_cut(strategy: Strategy, cut: int) -> PlacementKey:
    """Return the placement of a strategy and a cut."""
    drafts = strategy.draft is not None
    return PlacementKey(drafts, strategy.draft_device or "", strategy.parallel, cut)


def _corrected(
    predicted: Sequence[StrategyThroughput], reached: Sequence[Reached]
) -> list[StrategyThroughput]:
    """Return rates times what placements of their kind have reached of theirs.

    Kinds that were not tried with the accelerator are taken to fall as short as those that were;
    where none was, as short as the CPU alone as far as the target still lies there.

    Args:
        predicted: of all strategies.
        reached: by answers of these models, the newest first.
    """
    shares: dict[PlacementKind, float] = {}
    for one in reached:
        for each in predicted:
            cut = one.placement.cut
            if cut < len(each.rate) and key_of_cut(each.strategy, cut) == one.placement:
                share = one.tokens_per_s / float(each.rate[cut])
                shares.setdefault(one.placement.kind, share)
    if not shares:
        return list(predicted)
    there = [share for kind, share in shares.items() if kind is not PlacementKind.CPU]
    here = shares.get(PlacementKind.CPU, 1.0)

    def share_of(kind: PlacementKind, moved: float) -> float:
        if kind in shares or kind is PlacementKind.CPU:
            return shares.get(kind, 1.0)
        return sum(there) / len(there) if there else here + (1 - here) * moved

    def corrected(each: StrategyThroughput) -> StrategyThroughput:
        cuts, most = range(len(each.rate)), max(len(each.rate) - 1, 1)
        return replace(
            each,
            rate=each.rate
            * [share_of(key_of_cut(each.strategy, cut).kind, cut / most) for cut in cuts],
        )

    return list(map(corrected, predicted))


def _without_a_core(host: Host, cpu: DeviceSpeeds) -> DeviceSpeeds:
    """Return the CPU's speeds while a simulated accelerator takes one of its cores."""
    cores = cpu.threads or host.cores
    return slower(cpu, cores / max(cores - 1, 1))


# ---- what drafting brings ----------------------------------------------------------------------

NEXT_CHOICE = 0.3
"""Prob that a draft's next choice is right once all choices before it were wrong.

With it a tree of 26 nodes brings a quarter more tokens than a chain of five, as EAGLE-1's did
(arXiv 2401.15077, the ablation of tree attention).
"""

DEPTHS = range(1, DEEPEST + 1)

_PARALLEL_ROWS = (1, 3, 7, len(ROWS) - 1)
"""Drafted nodes of the parallel loop's verifications that are weighed."""
_CANDIDATES = 4
"""Most children of a node in the parallel loop."""


@dataclass(frozen=True, slots=True)
class ExpectedThroughput:
    """Tokens per second for every cut, and the levels of drafting that bring them."""

    tokens_per_s: Numbers
    depth: Numbers


def expected_tokens(depth: int, acceptance: float) -> float:
    """Mean tokens of a round: accepted ones of a chain of `depth`, and the target's own."""
    return sum(acceptance**accepted for accepted in range(depth + 1))


@lru_cache(maxsize=64)
def tree_tokens(acceptance: float, width: int) -> Numbers:
    """Return [DEEPEST, nodes + 1]: mean tokens per round of the best tree by depth and nodes.

    Args:
        acceptance: chance that a draft's likeliest token is accepted once all before it were.
        width: most children of a node.
    """
    most = len(ROWS) - 1
    return np.array([_best_nodes(acceptance, width, depth, most) for depth in DEPTHS]).cumsum(1)


def _best_nodes(acceptance: float, width: int, depth: int, most: int) -> list[float]:
    """Return 1 for the target's own token, then the probs of the likeliest paths, best first."""
    missed = (1 - acceptance) * (1 - NEXT_CHOICE) ** np.arange(width - 1)
    ranks = [acceptance, *(missed * NEXT_CHOICE)]
    chances = [1.0]
    open_nodes = [(-acceptance, 1, 0, 1.0)]  # of a path, its depth, its rank, its parent's
    while open_nodes and len(chances) <= most:
        negative, level, rank, parent = heappop(open_nodes)
        chances.append(-negative)
        if rank + 1 < width:
            heappush(open_nodes, (-parent * ranks[rank + 1], level, rank + 1, parent))
        if level < depth:
            heappush(open_nodes, (negative * acceptance, level + 1, 0, -negative))
    return chances + [0.0] * (most + 1 - len(chances))


def plain(verify: Numbers) -> ExpectedThroughput:
    """Return the throughput of the target alone.

    Args:
        verify: [rows, cuts], seconds of a target forward over 1, 2, ... rows.
    """
    return ExpectedThroughput(1 / verify[0], np.zeros_like(verify[0]))


def serial(verify: Numbers, draft: float, acceptance: float) -> ExpectedThroughput:
    """Return the throughput of drafting a chain, then verifying it, at the depth that pays best.

    Args:
        verify: as in `plain`.
        draft: seconds to draft one token.
        acceptance: chance that a drafted token is accepted once all before it were.
    """
    rates = [
        expected_tokens(depth, acceptance) / (verify[depth] + depth * draft) for depth in DEPTHS
    ]
    best = np.argmax(rates, axis=0)
    return ExpectedThroughput(np.max(rates, axis=0), best + 1.0)


def in_trees(
    verify: Numbers, level: float, begin: float, acceptance: float, width: int
) -> ExpectedThroughput:
    """Draft a tree level by level, then verify its best nodes; depth and nodes that pay best.

    Args:
        verify: as in `plain`.
        level: seconds to draft one level.
        begin: seconds that a round's drafting takes besides.
        acceptance: chance that the likeliest token is accepted once all before it were.
        width: nodes of a level, and children of a node.
    """
    tokens = tree_tokens(acceptance, width)[:, 1:]
    drafting = begin + level * np.array(DEPTHS)
    rates = tokens[:, :, None] / (verify[None, 1:] + drafting[:, None, None])
    flat = rates.reshape(-1, rates.shape[2])
    return ExpectedThroughput(flat.max(axis=0), flat.argmax(axis=0) // tokens.shape[1] + 1.0)


def parallel(
    verify: Numbers, draft: float, breadth: float, acceptance: float
) -> ExpectedThroughput:
    """Draft while the target verifies, as DuoDecoding does here: see `engine.plan.both_lanes`.

    What was played with verifications that take as long for any number of rows is taken for those
    of the rows that pay best; and no round brings more than the best tree of so many.

    Args:
        verify: as in `plain`.
        draft: seconds of a step with one node.
        breadth: of every further node of it, as a share of that.
        acceptance: as in `serial`.
    """
    played, most = _played(acceptance, breadth), tree_tokens(acceptance, _CANDIDATES)[-1]
    places = np.log(both_lanes.COSTS)
    rates = [
        np.minimum(np.interp(np.log(draft / verify[rows]), places, played), most[rows])
        / verify[rows]
        for rows in _PARALLEL_ROWS
    ]
    depth = np.clip(np.floor(verify[0] / draft), 1, DEEPEST)
    return ExpectedThroughput(np.max(rates, axis=0), depth)


@lru_cache(maxsize=64)
def _played(acceptance: float, breadth: float) -> Numbers:
    """Return tokens by cost, between the nearest acceptances and breadths of the simulation."""
    table = np.array(both_lanes.TOKENS)
    for axis, value in ((both_lanes.BREADTHS, breadth), (both_lanes.FIRST, acceptance)):
        after = int(np.clip(np.searchsorted(axis, value), 1, len(axis) - 1))
        below, above = axis[after - 1], axis[after]
        part = float(np.clip((value - below) / (above - below), 0, 1))
        table = table[after - 1] * (1 - part) + table[after] * part
    return table
