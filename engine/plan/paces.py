"""How fast every way to run a target would be; memory does not matter here.

A way is who drafts, where, and in which loop; for each there are all cuts of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.backend.native.sizes import WIDTH
from engine.commands import Mode
from engine.machine.facts import CPU, Accelerator, Host
from engine.machine.speeds import DeviceSpeeds
from engine.plan.cost import ROWS, AcceleratorLane, Forwards, slower
from engine.plan.expectation import (
    BUCKETS,
    DEPTH,
    DEPTH_OF_FEW_CORES,
    FEW_CORES,
    NODES,
    NODES_OF_FEW_CORES,
    WIDTHS,
    Expectation,
)
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Numbers
from engine.plan.speculation import ExpectedPace, in_trees, parallel, plain, serial
from engine.plan.workspace import HEAD_WIDTH

LOOKUP_ACCEPTANCE = 0.1
"""Of tokens that the conversation itself proposes, over all kinds of answers."""
LOOKUP_S = 5e-6
CHEAP_BYTES = 64 << 20
"""A draft of so many bytes is loaded anyway: what it brings is measured sooner than predicted."""
_PREFERRED = 1 + 1e-9
_WIDE = 4
"""Nodes of a step that tell what breadth costs."""
_NEW_FEATURES = 5
"""Tokens of a usual round, whose features a head gets in the next one."""


@dataclass(frozen=True, slots=True)
class DraftingWay:
    """Who drafts, where and when; `draft` None with a `draft_device` is lookup alone."""

    draft: int | None
    draft_device: str | None
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Paced:
    """A way, and tokens per second for every cut.

    Attributes:
        pace: with drafts in every round.
        rate: rounds without drafts where these are faster, unless drafting is forced.
        draft_s: seconds of a drafted token, or of a level of them.
    """

    way: DraftingWay
    pace: ExpectedPace
    rate: Numbers
    draft_s: float


class Paces:
    """All ways of one target on the CPU, and on one accelerator if there is one.

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
    ) -> None:
        cpu = cpu.beside(target.footprint.weight_bytes)
        self._host, self._accelerator, self._lane, self._cpu = host, accelerator, lane, cpu
        self._drafts, self._wish = drafts, wish
        self._tokens = min(wish.tokens, wish.context or target.max_positions)
        self._verify = Forwards(target.footprint, cpu, lane, self._tokens).seconds(ROWS)
        self.alone = 1 / self._verify[0]
        self.found = [self._paced(way) for way in self._ways(target)]

    def _ways(self, target: ModelFacts) -> list[DraftingWay]:
        wish, found = self._wish, self._accelerator
        if wish.mode is Mode.PLAIN or target.other_family:
            return [DraftingWay(None, None)]
        ways = [DraftingWay(None, CPU if wish.lookup else None)]
        if wish.forced and self._drafts:
            ways = []
        for index, draft in enumerate(self._drafts):
            ways.append(DraftingWay(index, CPU))
            if found is not None and wish.mode is not Mode.CPU:
                ways.append(DraftingWay(index, found.device))
            both = wish.parallel and not draft.is_head  # whose features come from verifying
            if found is not None and both and wish.mode in (Mode.AUTO, Mode.DUO):
                ways.append(DraftingWay(index, CPU, parallel=True))
        return ways

    def _paced(self, way: DraftingWay) -> Paced:
        draft_s = self._draft_seconds(way)
        pace = self._pace(way, draft_s)
        forced = self._wish.forced or way.parallel
        rate = pace.tokens_per_s if forced else np.maximum(pace.tokens_per_s, self.alone)
        cheap = way.draft is not None and (
            self._drafts[way.draft].model.footprint.weight_bytes <= CHEAP_BYTES
        )
        return Paced(way, pace, rate * _PREFERRED if cheap else rate, draft_s)

    def _pace(self, way: DraftingWay, draft_s: float) -> ExpectedPace:
        if way.draft_device is None:
            return plain(self._verify)
        if way.draft is None:
            return serial(self._verify, draft_s, LOOKUP_ACCEPTANCE)
        draft = self._drafts[way.draft]
        if draft.width > 1 and not way.parallel:
            begin = self._forwards(way, draft).call(_NEW_FEATURES)
            return in_trees(self._verify, draft_s, begin, draft.acceptance, draft.width)
        in_turns = serial(self._verify, draft_s, draft.acceptance)
        if not way.parallel:
            return in_turns
        steps = self._forwards(way, draft).seconds((1, _WIDE))[:, -1]
        breadth = float(steps[1] / steps[0] - 1) / (_WIDE - 1)
        both = parallel(self._verify, draft_s, breadth, draft.acceptance)
        # Where the CPU verifies as well it has no time to draft meanwhile.
        alone = np.arange(len(both.depth)) == len(both.depth) - 1
        return ExpectedPace(
            np.where(alone, both.tokens_per_s, in_turns.tokens_per_s),
            np.where(alone, both.depth, in_turns.depth),
        )

    def _draft_seconds(self, way: DraftingWay) -> float:
        if way.draft is None:
            return LOOKUP_S
        draft = self._drafts[way.draft]
        forwards = self._forwards(way, draft)
        at_once = self._lane is not None and self._lane.returns_logits
        if draft.is_head or draft.width > 1 or (at_once and way.draft_device != CPU):
            return forwards.level(draft.width)  # nothing comes to the host in between
        return float(forwards.seconds([1])[0, -1])

    def expected(self, way: DraftingWay, cut: int) -> Expectation | None:
        """What decoding may expect of a way at a cut; None where nothing drafts."""
        if way.draft_device is None:
            return None
        rows, most = self._verify[:, cut], len(self._verify)
        row = (rows[-1] - rows[most // 2 - 1]) / (most - most // 2)  # of many
        verify = [
            float(rows[min(bucket, most) - 1] + max(bucket - most, 0) * row) for bucket in BUCKETS
        ]
        cpu_verifies = self._lane is None or cut < self._verify.shape[1] - 1
        few = cpu_verifies and self._host.cores <= FEW_CORES
        first = (NODES_OF_FEW_CORES, DEPTH_OF_FEW_CORES) if few else (NODES, DEPTH)
        if way.draft is None:
            return Expectation(tuple(verify), (LOOKUP_S,) * len(WIDTHS), LOOKUP_ACCEPTANCE, *first)
        draft = self._drafts[way.draft]
        forwards, widest = self._forwards(way, draft), HEAD_WIDTH if draft.is_head else WIDTH
        levels = tuple(forwards.level(width) for width in WIDTHS if width <= widest)
        return Expectation(tuple(verify), levels, draft.acceptance, *first)

    def _forwards(self, way: DraftingWay, draft: DraftFacts) -> Forwards:
        lane, cpu = None if way.draft_device == CPU else self._lane, self._cpu
        if way.parallel and self._accelerator is not None and self._accelerator.simulated:
            cpu = _without_a_core(self._host, cpu)
        return Forwards(draft.model.footprint, cpu, lane, self._tokens)


def _without_a_core(host: Host, cpu: DeviceSpeeds) -> DeviceSpeeds:
    """A simulated accelerator takes a core, as long as both compute at the same time."""
    cores = cpu.threads or host.cores
    return slower(cpu, cores / max(cores - 1, 1))
