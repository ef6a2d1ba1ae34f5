"""Online estimates: means with forgetting, and costs by size from few measurements."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engine.model.text.kinds_of_text import TextKind
from engine.plan.plan import WIDTHS

Seconds = Callable[[int], float]
"""Seconds by rows or nodes."""

_FORGET = 0.97
_OUTLIER = 1.4
"""A measurement counts as at most this many times what was believed. Most larger ones are hiccups;
a lasting change comes through within a few measurements."""

_REFRESH = 8
"""So many measurements change little of what they say about other sizes."""

_FORGET_SLOWDOWN = 0.7

_STALE = 4.0
"""What has long not been measured counts as so many measurements, about as many as a trial brings:
a single one, which may be a hiccup, does not outweigh it."""

_FEW = 6.0
"""The first measurements of drafting are not capped: too little is known to call one a hiccup."""

_HARDLY_TRUSTED = 0.2
"""What is expected of two that compute beside each other counts as so many measurements: how much
one slows down the other only measuring tells."""

_REMEMBERED = 12.0
"""Most measurements that knowledge from earlier starts counts as: much may have changed."""

_BEGINS = 8.0
"""Most measurements that earlier text counts as where an answer, or a kind of text, begins."""


@dataclass(frozen=True, slots=True)
class KnownMean:
    """A mean and the number of measurements it is worth, as kept from start to start.

    Attributes:
        size: rows or nodes that it is the cost of; 0 where it is no cost.
    """

    value: float
    weight: float
    size: int = 0


@dataclass(frozen=True, slots=True)
class Learnt:
    """The beliefs of a controller about a pair on a machine, in a form that can be kept.

    Attributes:
        verify: seconds of target forwards by their rows.
        levels: seconds of a drafted level, or a step of the draft lane, by its width.
        means: whatever else the controller goes by, by name.
    """

    verify: tuple[KnownMean, ...] = ()
    levels: tuple[KnownMean, ...] = ()
    means: Mapping[str, KnownMean] = field(default_factory=dict)


class Mean:
    """Exponentially forgetting mean; `value` is None before the first measurement or prior.

    Args:
        prior: what is believed before.
        weight: as much as so many measurements.
        keep: what each measurement leaves of those before.
    """

    __slots__ = ("_keep", "_total", "value", "weight")

    def __init__(self, prior: float = 0.0, weight: float = 0.0, keep: float = _FORGET) -> None:
        self._total, self.weight, self._keep = prior * weight, weight, keep
        self.value = prior if weight else None

    def add(self, value: float) -> None:
        """Add a measurement."""
        self._total = self._total * self._keep + value
        self.weight = self.weight * self._keep + 1
        self.value = self._total / self.weight

    def fade(self) -> None:
        """Forget as with a measurement, but without one: what it is of may change meanwhile."""
        if self.weight > _STALE:
            self._total, self.weight = self._total * self._keep, self.weight * self._keep

    @property
    def known(self) -> KnownMean:
        """The mean as a later start should know it."""
        return KnownMean(self.value or 0.0, self.weight)

    def recall(self, known: KnownMean) -> None:
        """Believe what an earlier start has learnt."""
        weight = min(known.weight, _REMEMBERED)
        if weight:
            self._total, self.weight, self.value = known.value * weight, weight, known.value


class MeanByKind:
    """A mean for each kind of text; the first text of a kind begins with the mean of all.

    What an answer is like its own rounds tell best: earlier ones of the kind are only where it
    begins.

    Args:
        prior: what is believed before.
        weight: as much as so many measurements, more than 0.
        keep: what each measurement leaves of those before.
    """

    __slots__ = ("_all", "_keep", "_kind", "_kinds", "_now", "_own")

    def __init__(self, prior: float, weight: float, keep: float = _FORGET) -> None:
        self._all, self._keep = Mean(prior, weight, keep), keep
        self._kinds: dict[str, Mean] = {}
        self._own: dict[str, Mean] = {}  # of the present answer
        self.turn_to(TextKind.PROSE)

    @property
    def value(self) -> float:
        """The mean of the kind that is being written."""
        return self._now.value or 0.0

    @property
    def overall(self) -> float:
        """The mean of all text."""
        return self._all.value or 0.0

    def begin(self) -> None:
        """Start a new answer."""
        self._own.clear()
        self.turn_to(self._kind)

    def turn_to(self, kind: str) -> None:
        """Go on with text of this kind, by its name."""
        if kind not in self._kinds:
            self._kinds[kind] = self._after(self._all)
        if kind not in self._own:
            self._own[kind] = self._after(self._kinds[kind])
        self._kind, self._now = kind, self._own[kind]

    def _after(self, mean: Mean) -> Mean:
        """Return a mean that begins where another one is."""
        return Mean(mean.value or 0.0, min(mean.weight, _BEGINS), self._keep)

    def add(self, value: float) -> None:
        """Add a measurement of the kind that is being written."""
        for mean in (self._all, self._kinds[self._kind], self._now):
            mean.add(value)

    def fade(self) -> None:
        """Forget a little, as drafting rests."""
        for mean in (self._all, self._kinds[self._kind], self._now):
            mean.fade()

    def known(self, name: str) -> dict[str, KnownMean]:
        """The mean of all text by this name, and that of each kind by its own behind it."""
        kinds = {f"{name} {kind}": mean.known for kind, mean in self._kinds.items()}
        return {name: self._all.known, **kinds}

    def recall(self, name: str, known: Mapping[str, KnownMean]) -> None:
        """Believe what an earlier start has learnt, in the form of `known`."""
        if name in known:
            self._all.recall(known[name])
        self._kinds.clear()
        for key, of_kind in known.items():
            if key.startswith(f"{name} "):
                self._kinds[key.removeprefix(f"{name} ")] = mean = Mean(keep=self._keep)
                mean.recall(of_kind)
        self.begin()


class Costs:
    """Seconds by size: measured sizes, and between them an expected shape scaled to fit.

    Args:
        sizes: ascending; those between two of them are expected to cost what lies between.
        shape: seconds expected of each.
        weight: so many measurements count as much as what was expected.
    """

    __slots__ = ("_factors", "_measured", "_shape", "_since", "_values")

    def __init__(self, sizes: Sequence[int], shape: Sequence[float], weight: float) -> None:
        self._shape = _interpolated(sizes, shape)
        self._measured: list[int] = []
        self._since = 0
        self._factors = [Mean(1.0, weight) for _ in self._shape]
        """How much slower than the shape every size is."""
        self._values = list(self._shape)

    def _place(self, size: int) -> int:
        return min(size, len(self._shape)) - 1

    def of(self, size: int) -> float:
        """Return the seconds of this size."""
        return self._values[self._place(size)]

    def knows(self, size: int) -> bool:
        """Tell whether this size was measured."""
        return self._place(size) in self._measured

    def add(self, size: int, seconds: float) -> None:
        """Add a measurement of this size."""
        place = self._place(size)
        seconds = capped(seconds, self._values[place])
        factor = self._factors[place]
        factor.add(seconds / self._shape[place])
        self._values[place] = self._shape[place] * (factor.value or 1.0)
        self._since += 1
        if place not in self._measured:
            insort(self._measured, place)
        elif self._since < _REFRESH:
            return
        self._refresh()

    def fade(self) -> None:
        """Forget a little, as drafting rests."""
        for factor in self._factors:
            factor.fade()

    @property
    def known(self) -> tuple[KnownMean, ...]:
        """The seconds of all measured sizes, for a later start."""
        return tuple(
            KnownMean(self._values[place], self._factors[place].weight, place + 1)
            for place in self._measured
        )

    def recall(self, known: Iterable[KnownMean]) -> None:
        """Believe what an earlier start has measured."""
        for each in known:
            if each.value > 0 and 1 <= each.size <= len(self._shape):
                place = each.size - 1
                self._factors[place].recall(KnownMean(each.value / self._shape[place], each.weight))
                if place not in self._measured:
                    insort(self._measured, place)
        if self._measured:
            self._refresh()

    def _refresh(self) -> None:
        self._since = 0
        for index, shape in enumerate(self._shape):
            self._values[index] = shape * self._factor(index)

    def _factor(self, place: int) -> float:
        """Return its own factor, or the interpolation between its measured neighbours."""
        after = bisect_left(self._measured, place)
        upper = self._measured[min(after, len(self._measured) - 1)]
        lower = self._measured[max(after - 1, 0)]
        high, low = self._factors[upper].value or 1.0, self._factors[lower].value or 1.0
        if upper <= place or place <= lower:
            return high if upper <= place else low
        return low + (high - low) * (place - lower) / (upper - lower)


class VerifyCosts(Costs):
    """Seconds of a target forward by its rows, apart from how busy the machine is.

    Other programs slow down forwards of all sizes alike. So every forward measures the slowdown,
    but its size is only learnt where it differs from that of the forward before: several in a row
    cannot tell a slow size from a slow machine. A draft that works beside the target slows it down
    as well, and more of it is no reason to draft: then every forward counts as it was.

    Args:
        sizes: ascending; see `Costs`.
        seconds: expected of each.
        beside: whether the draft works while the target does.
    """

    __slots__ = ("_beside", "_last", "_slowdown")

    def __init__(
        self, sizes: Sequence[int], seconds: Sequence[float], *, beside: bool = False
    ) -> None:
        super().__init__(sizes, seconds, _HARDLY_TRUSTED if beside else 3.0)
        self._beside, self._slowdown = beside, Mean(keep=_FORGET_SLOWDOWN)
        self._last = 1
        """Rows of the last forward."""

    @property
    def slowdown(self) -> float:
        """Recent time of forwards relative to the believed one."""
        return self._slowdown.value or 1.0

    @property
    def measured(self) -> bool:
        """True once there has been a forward since the start."""
        return self._slowdown.value is not None

    def observe(self, rows: int, seconds: float, *, opening: bool) -> None:
        """Learn from one forward.

        Args:
            rows: of the forward.
            seconds: that it took.
            opening: whether it is the first after a prompt, which is slower than others.
        """
        first, believed = not self.measured, self.of(rows)
        if not first and not opening:
            seconds = capped(seconds, self.slowdown * believed)
        if self._beside:
            self._slowdown.add(1.0)
            if first or not opening:
                self.add(rows, seconds)
        elif first:
            self._slowdown.add(seconds / believed)
        elif not opening:
            if rows != self._last:
                self.add(rows, seconds / self.slowdown)
            self._slowdown.add(seconds / believed)
        self._last = rows


class DraftCosts(Costs):
    """Seconds of drafting: of a level by its width, and of a round besides its levels.

    Who drafts owns them, as it alone knows what its time depends on; controllers go by
    `draft_seconds`. Beside the target a draft computes single levels, called steps.

    Args:
        levels: seconds expected of a level, for the first of WIDTHS; no tree gets wider.
        beside: whether the draft works while the target does.
    """

    __slots__ = ("_beside", "_levels", "begin", "widths")

    def __init__(self, levels: Sequence[float], *, beside: bool = False) -> None:
        self.widths = WIDTHS[: len(levels)]
        super().__init__(self.widths, levels, _HARDLY_TRUSTED if beside else 4.0)
        self._levels, self._beside = levels, beside
        self.begin = Mean(0.0, 1.0)

    def anew(self) -> DraftCosts:
        """Return them as if nothing had been measured."""
        return DraftCosts(self._levels, beside=self._beside)

    def draft_seconds(self, depth: int, width: int) -> float:
        """Return the seconds of drafting a tree of so many levels of a width."""
        return (self.begin.value or 0.0) + depth * self.of(width)

    def left(self, nodes: int, elapsed: float) -> float | None:
        """Return the seconds until a step of age `elapsed` ends; None before any was measured.

        A step that is already late is expected to take as long again as it is late.
        """
        return abs(self.of(nodes) - elapsed) if self._measured else None

    def fade(self) -> None:
        """See `Costs`."""
        super().fade()
        self.begin.fade()

    def learn(self, depth: int, width: int, seconds: float) -> None:
        """Learn from so many levels, drafted in a round."""
        begin, believed = self.begin.value or 0.0, self.draft_seconds(depth, width)
        if self.begin.weight > _FEW:
            seconds = capped(seconds, believed)
        self.begin.add(max(begin + (seconds - believed) / depth, 0.0))
        self.add(width, max(seconds - begin, 0.0) / depth)


def capped(seconds: float, believed: float) -> float:
    """Return a measurement, cut to the most that it may count as."""
    return min(seconds, _OUTLIER * believed)


def _interpolated(sizes: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    """Return the values at 1, 2, 3, ... up to the largest size."""
    found = [values[0]]
    for low, high, start, end in zip(sizes, sizes[1:], values, values[1:], strict=False):
        step = (end - start) / (high - low)
        found += [start + step * (size - low) for size in range(low + 1, high + 1)]
    return tuple(found)
