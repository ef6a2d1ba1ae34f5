"""Every way to run a target with one accelerator or none: what it takes, and how fast it would be.

A way is who drafts, where, and in which loop; for each there are all cuts of the target. A ceiling
of memory only takes ways away, so more of it is never slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from engine.commands import Mode
from engine.machine.facts import CPU, Accelerator, Host
from engine.plan.budgets import (
    TORCH_BYTES,
    device_limit,
    host_reserve,
    runtime_bytes,
    with_slack,
)
from engine.plan.expectation import Expectation
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.holding import (
    NOTHING,
    Bytes,
    Holding,
    Taps,
    draft_on_accelerator,
    draft_on_cpu,
    lent_to_head,
    on_accelerator,
    on_cpu,
    tap_rooms,
    together,
)
from engine.plan.known import NOTHING_KNOWN, PairCorrections, of_draft, of_target
from engine.plan.paces import DraftingWay, Paced, Paces

KNEE = 0.95
"""Of the best speed, that the knee has to reach."""


@dataclass(frozen=True, slots=True)
class SurveyChoice:
    """A way and a cut.

    Attributes:
        drafting: tokens per second with drafts in every round; as `plain_rate` where none are.
        rate: tokens per second, rounds without drafts where these are faster.
    """

    way: DraftingWay
    cut: int
    depth: int
    rate: float
    drafting: float
    plain_rate: float
    ram: int
    vram: int

    @property
    def mode(self) -> Mode:
        """What it is called."""
        if self.way.draft_device is None:
            return Mode.PLAIN
        if self.way.parallel:
            return Mode.DUO
        return Mode.DOVETAIL if self.vram else Mode.CPU


@dataclass(frozen=True, slots=True)
class _Numbers:
    """What a way takes of the host's and of the device's memory, for every cut."""

    paced: Paced
    ram: Bytes
    vram: Bytes


class Survey:
    """All ways of one target on the CPU, and on one accelerator if there is one, for a context.

    Args:
        paces: how fast they are.
        drafts: the models that may draft; where there are none, ways with drafts do not count.
        context: planned tokens.
        known: what earlier predictions of this memory were off by.
    """

    def __init__(
        self,
        host: Host,
        accelerator: Accelerator | None,
        paces: Paces,
        target: ModelFacts,
        drafts: Sequence[DraftFacts],
        wish: Wish,
        context: int,
        known: PairCorrections = NOTHING_KNOWN,
    ) -> None:
        self._known = known
        self._host, self.accelerator, self._paces = host, accelerator, paces
        self._target, self._drafts, self._wish = target.footprint, drafts, wish
        self.context = context
        here = on_cpu(target.footprint, context, alone=accelerator is None)
        self.cpu_holding = of_target(here, known.host)
        self.device_holding = NOTHING
        if accelerator is not None:
            there = on_accelerator(target.footprint, context, accelerator)
            self.device_holding = of_target(there, known.device)
        ways = [each for each in paces.found if drafts or each.way.draft is None]
        self._found = [self._numbers(paced) for paced in ways]
        self._flatten()

    @property
    def cuts(self) -> int:
        """Ways to cut the target."""
        return len(self._paces.alone)

    def best(self, ceiling: int) -> SurveyChoice | None:
        """The fastest way within a ceiling; of equals the one that takes least."""
        fits = self._order[self._vram[self._order] <= ceiling]
        return self._choice(int(fits[0])) if len(fits) else None

    @property
    def steps(self) -> list[SurveyChoice]:
        """All that some ceiling within the device's limit is best used for, by its memory."""
        by_vram = np.argsort(self._vram[self._order], kind="stable")
        best_so_far = np.minimum.accumulate(by_vram)  # places in the order: the best one is first
        return [self._choice(int(self._order[at])) for at in np.unique(best_so_far)[::-1]]

    @property
    def knee(self) -> int:
        """The smallest ceiling with about the best speed that the device's limit allows."""
        rates, vram = self._rate[self._order], self._vram[self._order]
        if self._asked():  # not only speed counts
            return self.limit
        enough = vram[rates >= KNEE * rates[0]] if len(rates) else vram
        return int(enough.min()) if len(enough) else 0

    @property
    def possible(self) -> bool:
        """Whether anything fits at all."""
        return len(self._order) > 0

    @property
    def fastest(self) -> SurveyChoice | None:
        """The best way that the device's limit allows."""
        return self.best(self.limit)

    def nearest(self, ceiling: int) -> SurveyChoice:
        """The allowed way that comes closest to fitting."""
        over = np.maximum(self._ram - self._most_ram, 0) + np.maximum(self._vram - ceiling, 0)
        return self._choice(int(np.argmin(np.where(self._wanted, over, np.iinfo(np.int64).max))))

    def other(self, ceiling: int, wanted: Callable[[DraftingWay], bool]) -> SurveyChoice | None:
        """The fastest within a ceiling of only some ways."""
        fits = self._order[self._vram[self._order] <= ceiling]
        chosen = [wanted(each.paced.way) for each in self._found]
        return next((self._choice(int(at)) for at in fits if chosen[at // self.cuts]), None)

    def needed(self, way: DraftingWay) -> int:
        """Device memory of a way with the whole target on the accelerator."""
        return next(int(each.vram[-1]) for each in self._found if each.paced.way == way)

    def other_on_device(self, ceiling: int) -> SurveyChoice | None:
        """The fastest within a ceiling in which the accelerator takes part."""
        vram = self._vram[self._order]
        fits = self._order[(vram <= ceiling) & (vram > 0)]
        return self._choice(int(fits[0])) if len(fits) else None

    def draft_share(self, choice: SurveyChoice) -> float:
        """Seconds of a drafted token, measured in verifications of one row."""
        found = next(each for each in self._paces.found if each.way == choice.way)
        return found.draft_s * choice.plain_rate

    def expected(self, choice: SurveyChoice) -> Expectation | None:
        """What decoding may expect of a choice."""
        return self._paces.expected(choice.way, choice.cut)

    def draft_holding(self, way: DraftingWay) -> Holding | None:
        """What the way's draft holds, on its device, beside what is the target's."""
        if way.draft is None:
            return None
        model = self._drafts[way.draft].model
        held, context = model.footprint, min(self.context, model.max_positions)
        on_host = way.draft_device == CPU or self.accelerator is None
        if on_host or self.accelerator is None:
            whole = draft_on_cpu(held, context)
        else:
            whole = draft_on_accelerator(held, context, self.accelerator)
        known = self._known.host if on_host else self._known.device
        if held.fusion is None:
            return of_draft(whole, known)
        lent = lent_to_head(self._target, held, self.cuts, on_host=on_host)
        return of_draft(replace(whole, weights=whole.weights - lent), known)

    def _numbers(self, paced: Paced) -> _Numbers:
        way = paced.way
        held, on_host = self.draft_holding(way), way.draft_device == CPU
        here, there = self.tap_rooms(way)
        ram = together(self.cpu_holding, held if on_host else None) + self.feature_bytes(way) + here
        vram = together(self.device_holding, None if on_host else held) + there
        return _Numbers(paced, *self._with_software(ram, vram))

    def tap_rooms(self, way: DraftingWay) -> Taps:
        """Working memory of the target for the features of a head, host and accelerator."""
        if way.draft is None:
            return NOTHING.own, NOTHING.own
        head = self._drafts[way.draft].model.footprint
        return tap_rooms(self._target, head, self.cuts, self.accelerator)

    def feature_bytes(self, way: DraftingWay) -> int:
        """What a sequence of the target keeps on the host for a head that drafts."""
        if way.draft is None:
            return 0
        return self._drafts[way.draft].model.footprint.feature_bytes(self.context)

    def _with_software(self, ram: Bytes, vram: Bytes) -> tuple[Bytes, Bytes]:
        found = self.accelerator
        if found is None:
            return ram, vram
        used = vram > 0
        vram = np.where(used, with_slack(found, vram + runtime_bytes(found)), 0)
        if found.unified or found.simulated:  # one memory
            ram = ram + vram
        return ram + used * (0 if found.simulated else TORCH_BYTES), vram

    @property
    def _most_ram(self) -> int:
        return self._host.memory_available - host_reserve(self._host)

    @property
    def limit(self) -> int:
        """The most that the accelerator may hold."""
        return 0 if self.accelerator is None else device_limit(self.accelerator)

    def _flatten(self) -> None:
        """All ways and cuts in one row, and in `_order` those that fit, the best first."""
        self._rate = np.concatenate([each.paced.rate for each in self._found])
        self._ram = np.concatenate([each.ram for each in self._found])
        self._vram = np.concatenate([each.vram for each in self._found])
        self._wanted = np.concatenate([self._allowed(each.paced.way) for each in self._found])
        fits = self._wanted & (self._ram <= self._most_ram) & (self._vram <= self.limit)
        order = np.lexsort((self._ram, self._vram, -self._rate, *self._asked()))
        self._order = order[fits[order]]

    def _asked(self) -> list[NDArray[np.bool_] | Bytes]:
        """What goes before speed where Dovetail is forced: the draft on the accelerator.

        On a simulated one, which is no faster than the CPU, also as many layers as fit: it is there
        to show them.
        """
        if self._wish.mode is not Mode.DOVETAIL or self.accelerator is None:
            return []
        elsewhere = np.repeat(
            [each.paced.way.draft_device == CPU for each in self._found], self.cuts
        )
        cuts = np.tile(np.arange(self.cuts), len(self._found))
        return [-cuts, elsewhere] if self.accelerator.simulated else [elsewhere]

    def _allowed(self, way: DraftingWay) -> NDArray[np.bool_]:
        """The cuts that the wish leaves."""
        cuts, wish, allowed = self.cuts, self._wish, np.ones(self.cuts, dtype=np.bool_)
        if wish.layers_on_gpu is not None:
            last = cuts - 2
            allowed &= np.minimum(np.arange(cuts), max(last, 0)) == wish.layers_on_gpu
        if wish.mode is Mode.CPU:
            allowed[1:] = False
        if wish.mode is Mode.DOVETAIL and way.draft_device == CPU:
            allowed[0] = False
        if wish.mode is Mode.DOVETAIL and way.draft_device is None:
            allowed[:] = False
        if way.parallel:
            allowed[:-1] = False
        elif wish.mode is Mode.DUO:
            allowed[:] = False
        return allowed

    def _choice(self, place: int) -> SurveyChoice:
        found, cut = self._found[place // self.cuts], place % self.cuts
        pace = found.paced.pace
        return SurveyChoice(
            way=found.paced.way,
            cut=cut,
            depth=int(pace.depth[cut]),
            rate=float(found.paced.rate[cut]),
            drafting=float(pace.tokens_per_s[cut]),
            plain_rate=float(self._paces.alone[cut]),
            ram=int(found.ram[cut]),
            vram=int(found.vram[cut]),
        )
