"""The modes that were found best for models, each for one; see the benchmark page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from engine.commands import Mode

_MOST = 100
_LONGEST = 4096


@dataclass(frozen=True, slots=True)
class ModeOf:
    """Mode of one model, named by its path, whatever mode others run in."""

    model: str
    mode: Mode


@dataclass(frozen=True, slots=True)
class Modes:
    """The kind of setting that holds them, the last found first."""

    def read(self, value: object) -> tuple[ModeOf, ...]:
        """Return the tables that name a model and a mode."""
        if not isinstance(value, list):
            raise ValueError(value)
        found = [_from_table(table) for table in value]
        return tuple(each for each in found if each is not None)[:_MOST]

    def write(self, value: Sequence[ModeOf]) -> object:
        """Return a table each."""
        return [{"model": each.model, "mode": each.mode.value} for each in value[:_MOST]]


def _from_table(table: object) -> ModeOf | None:
    if not isinstance(table, dict):
        return None
    model, mode = table.get("model"), table.get("mode")
    if not isinstance(model, str) or not 0 < len(model) <= _LONGEST or mode not in set(Mode):
        return None
    return ModeOf(model, Mode(mode))
