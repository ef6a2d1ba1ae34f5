"""Places of every part of the models, now and after a change. No Qt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from app.tuning.budget.model import BudgetModel
from app.tuning.budget.wording import card_words
from engine.language import number, sentences, tr
from engine.machine.facts import CPU

_CPU_NAME = "CPU"
"""Name of the CPU in a `PlanSummary`."""


class LayerPlace(Enum):
    """Device of a layer, or the devices between which it would move."""

    GPU = auto()
    TO_GPU = auto()
    TO_CPU = auto()
    CPU = auto()

    @classmethod
    def of(cls, now: bool | None, then: bool) -> LayerPlace:
        """Return the place, now and then; None: it is nowhere yet."""
        if now is None or now == then:
            return cls.GPU if then else cls.CPU
        return cls.TO_GPU if then else cls.TO_CPU


@dataclass(frozen=True, slots=True)
class LayerPlaces:
    """The target's layers from the first to the last, and what lies beside them by its name."""

    layers: tuple[LayerPlace, ...]
    others: tuple[tuple[str, LayerPlace], ...]
    device: str
    """The card in the middle of a sentence."""

    @classmethod
    def of(cls, model: BudgetModel, budget: int | None) -> LayerPlaces:
        """Return the places with a budget, compared with how the model runs now."""
        device, point = card_words(model.card), model.at(budget)
        if point is None:
            return cls((), (), device)
        every, now = model.main.layers, model.present
        if now is not None and now.layers != every:
            now = None  # that was another model
        before = None if now is None else now.layers_on_gpu
        layers = tuple(
            LayerPlace.of(None if before is None else place < before, place < point.layers_on_gpu)
            for place in range(every)
        )
        embedded = None if now is None else now.embedding_on_gpu
        headed = None if now is None else now.head_on_gpu
        others = [
            (tr("Embedding"), LayerPlace.of(embedded, point.embedding_on_gpu)),
            (tr("Head"), LayerPlace.of(headed, point.head_on_gpu)),
        ]
        if point.draft_device is not None:
            drafted = None
            if now is not None and now.draft_device is not None:
                drafted = now.draft_device != _CPU_NAME
            others.append((tr("Draft"), LayerPlace.of(drafted, point.draft_device != CPU)))
        return cls(layers, tuple(others), device)

    def counts(self) -> list[tuple[LayerPlace, int]]:
        """Return the number of layers in each place, but for empty ones."""
        return [(place, n) for place in LayerPlace if (n := self.layers.count(place))]

    def words(self, place: LayerPlace) -> str:
        """Return where something lies."""
        texts = {
            LayerPlace.GPU: tr("on {device}"),
            LayerPlace.TO_GPU: tr("on the CPU now, then on {device}"),
            LayerPlace.TO_CPU: tr("on {device} now, then on the CPU"),
            LayerPlace.CPU: tr("on the CPU"),
        }
        return texts[place].format(device=self.device)

    def count_words(self, place: LayerPlace, count: int) -> str:
        """Return a number of layers in a place, in words."""
        texts = {
            LayerPlace.GPU: tr("{n} on {device}"),
            LayerPlace.TO_GPU: tr("{n} moving to {device}"),
            LayerPlace.TO_CPU: tr("{n} moving to the CPU"),
            LayerPlace.CPU: tr("{n} on the CPU"),
        }
        return texts[place].format(n=number(count), device=self.device)

    def layer_words(self, index: int) -> str:
        """Return one layer in words, counted from 1."""
        said = tr("Layer {n}: {place}")
        return said.format(n=number(index + 1), place=self.words(self.layers[index]))

    def each(self) -> Iterator[tuple[str, str]]:
        """Yield everything by its name, and its place."""
        for index, place in enumerate(self.layers):
            yield tr("Layer {n}").format(n=number(index + 1)), self.words(place)
        for name, place in self.others:
            yield name, self.words(place)

    def summary(self) -> str:
        """Return all places in sentences."""
        counted = [
            tr("Layers: {counted}.").format(counted=self.count_words(place, n))
            for place, n in self.counts()
        ]
        beside = [
            tr("{part}: {place}.").format(part=name, place=self.words(place))
            for name, place in self.others
        ]
        return sentences(*counted, *beside) or tr("No data yet.")
