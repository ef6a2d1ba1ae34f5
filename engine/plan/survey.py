"""Every way to run a target with one accelerator or none: what it takes, and how fast it would be.

A way is who drafts, where, and in which loop; for each there are all cuts of the target. A ceiling
of memory only takes ways away, so more of it is never slower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.commands import Mode
from engine.plan.budgets import (
    TORCH_BYTES,
    device_limit,
    host_reserve,
    runtime_bytes,
    with_slack,
)
from engine.plan.cost import ROWS, Forwards, Lane, Numbers, slower
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.holding import (
    NOTHING,
    Bytes,
    Holding,
    draft_on_accelerator,
    draft_on_cpu,
    on_accelerator,
    on_cpu,
    together,
)
from engine.plan.machine import CPU, Accelerator, Host
from engine.plan.speculation import Pace, parallel, plain, serial
from engine.plan.speeds import DeviceSpeeds

LOOKUP_ACCEPTANCE = 0.1
"""Of tokens that the conversation itself proposes, over all kinds of answers."""
LOOKUP_S = 5e-6
CHEAP_BYTES = 64 << 20
"""A draft of so many bytes is loaded anyway: what it brings is measured sooner than predicted."""
KNEE = 0.95
"""Of the best speed, that the knee has to reach."""
_PREFERRED = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Way:
    """Who drafts, where and when; `draft` None with a `draft_device` is lookup alone."""

    draft: int | None
    draft_device: str | None
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A way and a cut.

    Attributes:
        drafting: tokens per second with drafts in every round; as `plain_rate` where none are.
        rate: tokens per second, rounds without drafts where these are faster.
    """

    way: Way
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
    """What a way comes to for every cut."""

    way: Way
    pace: Pace
    rate: Numbers
    ram: Bytes
    vram: Bytes


class Survey:
    """All ways of one target on the CPU, and on one accelerator if there is one.

    Args:
        context: planned tokens.
        limit: most bytes of host memory; what a unified or simulated accelerator holds is in it.
    """

    def __init__(
        self,
        host: Host,
        accelerator: Accelerator | None,
        lane: Lane | None,
        cpu: DeviceSpeeds,
        target: ModelFacts,
        drafts: Sequence[DraftFacts],
        wish: Wish,
        context: int,
    ) -> None:
        self._host, self.accelerator, self._lane = host, accelerator, lane
        self._target, self._drafts, self._wish = target, drafts, wish
        self.context = context
        held = target.footprint
        self._cpu = cpu
        forwards = Forwards(held, cpu, lane, self._tokens)
        self._verify = [forwards.seconds(rows) for rows in ROWS]
        self.cpu_holding = on_cpu(held, context, alone=accelerator is None)
        self.device_holding = NOTHING
        if accelerator is not None:
            self.device_holding = on_accelerator(held, context, accelerator)
        self._found = [self._numbers(way) for way in self._ways()]
        self._flatten()

    @property
    def cuts(self) -> int:
        """Ways to cut the target."""
        return len(self._verify[0])

    def best(self, ceiling: int) -> Choice | None:
        """The fastest way within a ceiling; of equals the one that takes least."""
        fits = self._order[self._vram[self._order] <= ceiling]
        return self._choice(int(fits[0])) if len(fits) else None

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

    def least(self, ceiling: int) -> tuple[int, int]:
        """Host and device memory of the allowed way that comes closest to fitting."""
        over = np.maximum(self._ram - self._most_ram, 0) + np.maximum(self._vram - ceiling, 0)
        place = int(np.argmin(np.where(self._wanted, over, np.iinfo(np.int64).max)))
        return int(self._ram[place]), int(self._vram[place])

    def other(self, ceiling: int, wanted: Callable[[Way], bool]) -> Choice | None:
        """The fastest within a ceiling of only some ways."""
        fits = self._order[self._vram[self._order] <= ceiling]
        chosen = [wanted(each.way) for each in self._found]
        return next((self._choice(int(at)) for at in fits if chosen[at // self.cuts]), None)

    def needed(self, way: Way) -> int:
        """Device memory of a way with the whole target on the accelerator."""
        return next(int(each.vram[-1]) for each in self._found if each.way == way)

    def other_on_device(self, ceiling: int) -> Choice | None:
        """The fastest within a ceiling in which the accelerator takes part."""
        vram = self._vram[self._order]
        fits = self._order[(vram <= ceiling) & (vram > 0)]
        return self._choice(int(fits[0])) if len(fits) else None

    def draft_share(self, choice: Choice) -> float:
        """Seconds of a drafted token, measured in verifications of one row."""
        return self._draft_seconds(choice.way) * choice.plain_rate

    def draft_holding(self, way: Way) -> Holding | None:
        """What the way's draft holds, on its device."""
        if way.draft is None:
            return None
        model = self._drafts[way.draft].model
        context = min(self.context, model.max_positions)
        if way.draft_device == CPU or self.accelerator is None:
            return draft_on_cpu(model.footprint, context)
        return draft_on_accelerator(model.footprint, context, self.accelerator)

    def _ways(self) -> list[Way]:
        wish, alone = self._wish, self.accelerator is None
        if wish.mode is Mode.PLAIN or self._target.other_family:
            return [Way(None, None)]
        ways = [Way(None, CPU if wish.lookup else None)]
        if wish.forced and self._drafts:
            ways = []
        device = CPU if self.accelerator is None else self.accelerator.device
        for index in range(len(self._drafts)):
            ways.append(Way(index, CPU))
            if not alone and wish.mode is not Mode.CPU:
                ways.append(Way(index, device))
            if not alone and wish.parallel and wish.mode in (Mode.AUTO, Mode.DUO):
                ways.append(Way(index, CPU, parallel=True))
        return ways

    def _numbers(self, way: Way) -> _Numbers:
        pace = self._pace(way)
        forced = self._wish.forced or way.parallel
        rate = pace.tokens_per_s if forced else np.maximum(pace.tokens_per_s, 1 / self._verify[0])
        held = self.draft_holding(way)
        if held is not None and held.weights[0] <= CHEAP_BYTES:
            rate = rate * _PREFERRED
        on_host = way.draft_device == CPU
        ram = together(self.cpu_holding, held if on_host else None) + self.left_behind(way)
        vram = together(self.device_holding, None if on_host else held)
        return _Numbers(way, pace, rate, *self._with_software(ram, vram))

    def left_behind(self, way: Way) -> int:
        """Of a draft on an accelerator, what stays on the CPU: an embedding that is not tied."""
        if way.draft is None or way.draft_device == CPU:
            return 0
        held = self._drafts[way.draft].model.footprint
        return 0 if held.tied else held.embedding.nbytes

    def _with_software(self, ram: Bytes, vram: Bytes) -> tuple[Bytes, Bytes]:
        found = self.accelerator
        if found is None:
            return ram, vram
        used = vram > 0
        vram = np.where(used, with_slack(found, vram + runtime_bytes(found)), 0)
        if found.unified or found.simulated:  # one memory
            ram = ram + vram
        return ram + used * (0 if found.simulated else TORCH_BYTES), vram

    def _pace(self, way: Way) -> Pace:
        verify = self._verify
        if way.draft_device is None:
            return plain(verify)
        if way.draft is None:
            return serial(verify, self._draft_seconds(way), LOOKUP_ACCEPTANCE)
        loop = parallel if way.parallel else serial
        return loop(verify, self._draft_seconds(way), self._drafts[way.draft].acceptance)

    def _draft_seconds(self, way: Way) -> float:
        """Of a drafted token."""
        if way.draft is None:
            return LOOKUP_S
        held = self._drafts[way.draft].model.footprint
        lane, cpu = None if way.draft_device == CPU else self._lane, self._cpu
        if way.parallel and self.accelerator is not None and self.accelerator.simulated:
            cpu = _without_a_core(self._host, cpu)
        return float(Forwards(held, cpu, lane, self._tokens).seconds(1)[-1])

    @property
    def _tokens(self) -> int:
        return min(self._wish.tokens, self.context)

    @property
    def _most_ram(self) -> int:
        return self._host.memory_available - host_reserve(self._host)

    @property
    def limit(self) -> int:
        """The most that the accelerator may hold."""
        return 0 if self.accelerator is None else device_limit(self.accelerator)

    def _flatten(self) -> None:
        """All ways and cuts in one row, and in `_order` those that fit, the best first."""
        self._rate = np.concatenate([each.rate for each in self._found])
        self._ram = np.concatenate([each.ram for each in self._found])
        self._vram = np.concatenate([each.vram for each in self._found])
        self._wanted = np.concatenate([self._allowed(each.way) for each in self._found])
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
        elsewhere = np.repeat([each.way.draft_device == CPU for each in self._found], self.cuts)
        cuts = np.tile(np.arange(self.cuts), len(self._found))
        return [-cuts, elsewhere] if self.accelerator.simulated else [elsewhere]

    def _allowed(self, way: Way) -> NDArray[np.bool_]:
        """The cuts that the wish leaves."""
        cuts, wish, allowed = self.cuts, self._wish, np.ones(self.cuts, dtype=np.bool_)
        if wish.layers_on_gpu is not None:
            last = cuts - 2
            allowed &= np.minimum(np.arange(cuts), max(last, 0)) == wish.layers_on_gpu
        if wish.mode is Mode.CPU:
            allowed[1:] = False
        if wish.mode is Mode.DOVETAIL and way.draft_device == CPU:
            allowed[0] = False
        if way.parallel:
            allowed[:-1] = False
        elif wish.mode is Mode.DUO:
            allowed[:] = False
        return allowed

    def _choice(self, place: int) -> Choice:
        found, cut = self._found[place // self.cuts], place % self.cuts
        return Choice(
            way=found.way,
            cut=cut,
            depth=int(found.pace.depth[cut]),
            rate=float(found.rate[cut]),
            drafting=float(found.pace.tokens_per_s[cut]),
            plain_rate=float(1 / self._verify[0][cut]),
            ram=int(found.ram[cut]),
            vram=int(found.vram[cut]),
        )


def _without_a_core(host: Host, cpu: DeviceSpeeds) -> DeviceSpeeds:
    """A simulated accelerator takes a core, as long as both compute at the same time."""
    cores = cpu.threads or host.cores
    return slower(cpu, cores / max(cores - 1, 1))
