"""All placements of a target with one accelerator or none: the memory they take, their speed.

A placement is a strategy and one of the cuts of the target. A ceiling of memory only takes
placements away, so more of it is never slower.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.commands import Mode
from engine.machine.facts import CPU
from engine.machine.memory import host_reserve
from engine.machine.reached import PlacementKey
from engine.plan.footprint import allowed_cuts
from engine.plan.memory import (
    NOTHING,
    TORCH_BYTES,
    Bytes,
    PlannedMemory,
    Taps,
    device_limit,
    draft_on_accelerator,
    draft_on_cpu,
    lent_to_head,
    on_accelerator,
    on_cpu,
    runtime_bytes,
    tap_rooms,
    together,
    with_slack,
)
from engine.plan.plan import Expectation
from engine.plan.throughput import Strategy, StrategyThroughput, Throughput, key_of_cut

KNEE = 0.95
"""Share of the best speed that the knee has to reach."""


@dataclass(frozen=True, slots=True)
class Placement:
    """A strategy and a cut.

    Attributes:
        drafting: tokens per second with drafts in every round; `plain_rate` where none are.
        rate: tokens per second, rounds without drafts where these are faster.
        ram, vram: bytes of the host and of the accelerator.
    """

    strategy: Strategy
    cut: int
    depth: int
    rate: float
    drafting: float
    plain_rate: float
    ram: int
    vram: int

    @property
    def mode(self) -> Mode:
        """Mode that this placement amounts to."""
        if self.strategy.draft_device is None:
            return Mode.PLAIN
        if self.strategy.parallel:
            return Mode.DUO
        return Mode.DOVETAIL if self.vram else Mode.CPU


@dataclass(frozen=True, slots=True)
class _Option:
    """Bytes of the host and of the device that a strategy takes, for every cut."""

    found: StrategyThroughput
    ram: Bytes
    vram: Bytes


class PlacementSearch:
    """All placements on the CPU, and on one accelerator if there is one, for a context.

    Args:
        throughput: what is placed, where, and how fast that is.
        context: planned tokens.

    Attributes:
        limit: the most bytes that the accelerator may hold.
        cuts: number of ways to cut the target.
    """

    def __init__(self, throughput: Throughput, context: int) -> None:
        host, accelerator = throughput.host, throughput.accelerator
        self.host, self.accelerator, self.wish = host, accelerator, throughput.wish
        self.target, self._held = throughput.target, throughput.target.footprint
        self._throughput, self._drafts = throughput, throughput.drafts
        self.context, self.cuts = context, len(throughput.alone)
        self.limit = 0 if accelerator is None else device_limit(accelerator)
        self.host_budget = host.memory_available - host_reserve(host)
        self.cpu_memory = on_cpu(self._held, context, alone=accelerator is None)
        self.device_memory = NOTHING
        if accelerator is not None:
            self.device_memory = on_accelerator(self._held, context, accelerator)
        possible = [
            each for each in throughput.found if self._drafts or each.strategy.draft is None
        ]
        self._options = [self._option(each) for each in possible]
        self._flatten()

    def at(self, context: int) -> PlacementSearch:
        """Return the same search for another context in tokens."""
        return PlacementSearch(self._throughput, context)

    def best(self, ceiling: int) -> Placement | None:
        """Return the fastest placement within a ceiling; of equals the one that takes least."""
        return self._first(ceiling, lambda _: True)

    @property
    def steps(self) -> list[Placement]:
        """Placements that are best under some ceiling within the device's limit, by memory."""
        by_vram = np.argsort(self._vram[self._order], kind="stable")
        best_so_far = np.minimum.accumulate(by_vram)  # places in the order: the best one is first
        return [self._placement(int(self._order[at])) for at in np.unique(best_so_far)[::-1]]

    @property
    def knee(self) -> int:
        """Smallest ceiling with about the best speed that the device's limit allows."""
        steps = self.steps
        if self.wish.mode is Mode.DOVETAIL:  # a draft on the accelerator is not given up for speed
            steps = [
                each
                for each in steps
                if each.strategy.draft_device == steps[-1].strategy.draft_device
            ] or steps
        fastest = max((each.rate for each in steps), default=0.0)
        return min((each.vram for each in steps if each.rate >= KNEE * fastest), default=0)

    @property
    def possible(self) -> bool:
        """Tell whether anything fits at all."""
        return len(self._order) > 0

    @property
    def fastest(self) -> Placement | None:
        """Best placement that the device's limit allows."""
        return self.best(self.limit)

    @property
    def one_memory(self) -> bool:
        """Tell whether host and accelerator share one memory, or there is no accelerator."""
        return self.accelerator is None or self.accelerator.shares_host_memory

    def nearest(self, ceiling: int) -> Placement:
        """Return the allowed placement that comes closest to fitting."""
        over = np.maximum(self._ram - self.host_budget, 0) + np.maximum(self._vram - ceiling, 0)
        return self._placement(int(np.argmin(np.where(self._wanted, over, np.iinfo(np.int64).max))))

    def other(self, ceiling: int, wanted: Callable[[Strategy], bool]) -> Placement | None:
        """Return the fastest placement within a ceiling among the wanted strategies."""
        return self._first(
            ceiling, lambda place: wanted(self._options[place // self.cuts].found.strategy)
        )

    def other_on_device(self, ceiling: int) -> Placement | None:
        """Return the fastest placement within a ceiling in which the accelerator takes part."""
        return self._first(ceiling, lambda place: self._vram[place] > 0)

    def needed(self, strategy: Strategy) -> int:
        """Return the device memory of a strategy with the whole target on the accelerator."""
        found = (each for each in self._options if each.found.strategy == strategy)
        return int(next(found).vram[-1])

    def draft_share(self, placement: Placement) -> float:
        """Return the time of a drafted token relative to a verification of one row."""
        found = (each.found for each in self._options if each.found.strategy == placement.strategy)
        return next(found).draft_s * placement.plain_rate

    def expected(self, placement: Placement) -> Expectation | None:
        """Return what decoding may expect of a placement."""
        return self._throughput.expected(placement.strategy, placement.cut)

    def rate(self, placement: PlacementKey) -> float | None:
        """Return the tokens per second of a placement; None where it is not among these."""
        for each in self._options:
            rate, cut = each.found.rate, placement.cut
            if cut < len(rate) and key_of_cut(each.found.strategy, cut) == placement:
                return float(rate[cut])
        return None

    def draft_memory(self, strategy: Strategy) -> PlannedMemory | None:
        """Return the memory of the strategy's draft on its device, without the target's tensors."""
        if strategy.draft is None:
            return None
        model, found = self._drafts[strategy.draft].model, self.accelerator
        held, context = model.footprint, min(self.context, model.max_positions)
        on_host = strategy.draft_device == CPU or found is None
        if on_host or found is None:
            whole = draft_on_cpu(held, context)
        else:
            whole = draft_on_accelerator(held, context, found)
        if held.fusion is None:
            return whole
        lent = lent_to_head(self._held, held, self.cuts, on_host=on_host)
        return replace(whole, weights=whole.weights - lent)

    def tap_rooms(self, strategy: Strategy) -> Taps:
        """Return the target's workspace for the features of a head, on host and accelerator."""
        if strategy.draft is None:
            return NOTHING.own, NOTHING.own
        head = self._drafts[strategy.draft].model.footprint
        return tap_rooms(self._held, head, self.cuts, self.accelerator)

    def feature_bytes(self, strategy: Strategy) -> int:
        """Return the bytes that a target's sequence keeps on the host for a head that drafts."""
        if strategy.draft is None:
            return 0
        return self._drafts[strategy.draft].model.footprint.feature_bytes(self.context)

    def _option(self, found: StrategyThroughput) -> _Option:
        strategy, device = found.strategy, self.accelerator
        draft, on_host = self.draft_memory(strategy), strategy.draft_device == CPU
        here, there = self.tap_rooms(strategy)
        ram = together(self.cpu_memory, draft if on_host else None) + here
        ram = ram + self.feature_bytes(strategy)
        vram = together(self.device_memory, None if on_host else draft) + there
        if device is None:
            return _Option(found, ram, vram)
        used = vram > 0
        vram = np.where(used, with_slack(device, vram + runtime_bytes(device)), 0)
        if device.shares_host_memory:
            ram = ram + vram
        if not (device.takes_core or device.webgpu):
            ram = ram + used * TORCH_BYTES
        return _Option(found, ram, vram)

    def _flatten(self) -> None:
        """Put all placements in one row, and those that fit in `_order`, the best first."""
        self._rate = np.concatenate([each.found.rate for each in self._options])
        self._ram = np.concatenate([each.ram for each in self._options])
        self._vram = np.concatenate([each.vram for each in self._options])
        self._wanted = np.concatenate(
            [self._allowed(each.found.strategy) for each in self._options]
        )
        fits = self._wanted & (self._ram <= self.host_budget) & (self._vram <= self.limit)
        order = np.lexsort((self._ram, self._vram, -self._rate, *self._before_speed()))
        self._order = order[fits[order]]

    def _before_speed(self) -> list[NDArray[np.bool_] | Bytes]:
        """Return the keys that rank before speed in a forced Dovetail: draft on the accelerator.

        On a simulated accelerator, which is no faster than the CPU, also as many layers as the
        ceiling allows: it is there to show them to who asks for them.
        """
        if self.wish.mode is not Mode.DOVETAIL or self.accelerator is None:
            return []
        elsewhere = [each.found.strategy.draft_device == CPU for each in self._options]
        keys: list[NDArray[np.bool_] | Bytes] = [np.repeat(elsewhere, self.cuts)]
        if self.accelerator.takes_core:
            keys.insert(0, -np.tile(np.arange(self.cuts), len(self._options)))
        return keys

    def _allowed(self, strategy: Strategy) -> NDArray[np.bool_]:
        """Return [cuts]: whether the wish allows each cut."""
        cuts, wish = self.cuts, self.wish
        allowed = np.append(allowed_cuts(self._held), True)[:cuts]
        if wish.layers_on_gpu is not None:
            last = cuts - 2
            allowed &= np.minimum(np.arange(cuts), max(last, 0)) == wish.layers_on_gpu
        if wish.mode is Mode.CPU:
            allowed[1:] = False
        if wish.mode is Mode.DOVETAIL and strategy.draft_device == CPU:
            allowed[0] = False
        if wish.mode is Mode.DOVETAIL and strategy.draft_device is None:
            allowed[:] = False
        if strategy.parallel:
            allowed[:-1] = False
        elif wish.mode is Mode.DUO:
            allowed[:] = False
        return allowed

    def _first(self, ceiling: int, wanted: Callable[[int], bool]) -> Placement | None:
        """Return the best placement that fits into a ceiling and is wanted."""
        fits = self._order[self._vram[self._order] <= ceiling]
        return next((self._placement(int(place)) for place in fits if wanted(place)), None)

    def _placement(self, place: int) -> Placement:
        option, cut = self._options[place // self.cuts], place % self.cuts
        found = option.found
        return Placement(
            strategy=found.strategy,
            cut=cut,
            depth=int(found.drafting.depth[cut]),
            rate=float(found.rate[cut]),
            drafting=float(found.drafting.tokens_per_s[cut]),
            plain_rate=float(self._throughput.alone[cut]),
            ram=int(option.ram[cut]),
            vram=int(option.vram[cut]),
        )
