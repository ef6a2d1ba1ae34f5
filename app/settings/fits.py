"""Settings of models that do not fit as they are: another format, a shorter context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.commands import Load, WeightFormat

_MOST = 40
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class FitOf:
    """Choices that somebody has made for a model, given by its path."""

    model: str
    weights: WeightFormat = WeightFormat.AUTO
    context: int | None = None

    @classmethod
    def of(cls, load: Load) -> FitOf:
        """Return the part of a load that is kept here."""
        return cls(str(load.model), load.weights, load.context)

    @property
    def as_usual(self) -> bool:
        """True if there is nothing to keep."""
        return self.weights is WeightFormat.AUTO and self.context is None


@dataclass(frozen=True, slots=True)
class Fits:
    """The kind of setting that holds them, the last used first."""

    def read(self, value: object) -> tuple[FitOf, ...]:
        """Return the tables that name a model and what is unusual."""
        if not isinstance(value, list):
            raise ValueError(value)
        found = [_from_table(table) for table in value]
        return tuple(each for each in found if each is not None)[:_MOST]

    def write(self, value: Sequence[FitOf]) -> object:
        """Return a table each."""
        return [_to_table(each) for each in value[:_MOST]]


def _to_table(fit: FitOf) -> dict[str, object]:
    table: dict[str, object] = {"model": fit.model, "weights": str(fit.weights)}
    return table if fit.context is None else {**table, "context": fit.context}


def _from_table(table: object) -> FitOf | None:
    if not isinstance(table, dict):
        return None
    model, weights, context = (table.get(name) for name in ("model", "weights", "context"))
    if not isinstance(model, str) or not 0 < len(model) <= _LONGEST:
        return None
    known = weights if isinstance(weights, str) and weights in set(WeightFormat) else "auto"
    length = context if type(context) is int and context > 0 else None
    return FitOf(model, WeightFormat(known), length)
