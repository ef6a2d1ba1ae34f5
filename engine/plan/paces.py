"""How fast every way to run a target would be; memory does not matter here.

A way is who drafts, where, and in which loop; for each there are all cuts of the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from engine.commands import Mode
from engine.plan.cost import ROWS, Forwards, Lane, slower
from engine.plan.facts import DraftFacts, ModelFacts, Wish
from engine.plan.footprint import Numbers
from engine.plan.machine import CPU, Accelerator, Host
from engine.plan.speculation import Pace, parallel, plain, serial
from engine.plan.speeds import DeviceSpeeds

LOOKUP_ACCEPTANCE = 0.1
"""Of tokens that the conversation itself proposes, over all kinds of answers."""
LOOKUP_S = 5e-6
CHEAP_BYTES = 64 << 20
"""A draft of so many bytes is loaded anyway: what it brings is measured sooner than predicted."""
_PREFERRED = 1 + 1e-9


@dataclass(frozen=True, slots=True)
class Way:
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
        draft_s: seconds of a drafted token.
    """

    way: Way
    pace: Pace
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
        lane: Lane | None,
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

    def _ways(self, target: ModelFacts) -> list[Way]:
        wish, found = self._wish, self._accelerator
        if wish.mode is Mode.PLAIN or target.other_family:
            return [Way(None, None)]
        ways = [Way(None, CPU if wish.lookup else None)]
        if wish.forced and self._drafts:
            ways = []
        for index in range(len(self._drafts)):
            ways.append(Way(index, CPU))
            if found is not None and wish.mode is not Mode.CPU:
                ways.append(Way(index, found.device))
            if found is not None and wish.parallel and wish.mode in (Mode.AUTO, Mode.DUO):
                ways.append(Way(index, CPU, parallel=True))
        return ways

    def _paced(self, way: Way) -> Paced:
        draft_s = self._draft_seconds(way)
        pace = self._pace(way, draft_s)
        forced = self._wish.forced or way.parallel
        rate = pace.tokens_per_s if forced else np.maximum(pace.tokens_per_s, self.alone)
        cheap = way.draft is not None and (
            self._drafts[way.draft].model.footprint.weight_bytes <= CHEAP_BYTES
        )
        return Paced(way, pace, rate * _PREFERRED if cheap else rate, draft_s)

    def _pace(self, way: Way, draft_s: float) -> Pace:
        if way.draft_device is None:
            return plain(self._verify)
        if way.draft is None:
            return serial(self._verify, draft_s, LOOKUP_ACCEPTANCE)
        loop = parallel if way.parallel else serial
        return loop(self._verify, draft_s, self._drafts[way.draft].acceptance)

    def _draft_seconds(self, way: Way) -> float:
        if way.draft is None:
            return LOOKUP_S
        held = self._drafts[way.draft].model.footprint
        lane, cpu = None if way.draft_device == CPU else self._lane, self._cpu
        if way.parallel and self._accelerator is not None and self._accelerator.simulated:
            cpu = _without_a_core(self._host, cpu)
        return float(Forwards(held, cpu, lane, self._tokens).seconds([1])[0, -1])


def _without_a_core(host: Host, cpu: DeviceSpeeds) -> DeviceSpeeds:
    """A simulated accelerator takes a core, as long as both compute at the same time."""
    cores = cpu.threads or host.cores
    return slower(cpu, cores / max(cores - 1, 1))
