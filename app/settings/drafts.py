"""Settings of drafts: one for all models, and the drafts that somebody has chosen for one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

_MOST = 40
_LONGEST = 4096


class DraftSource(StrEnum):
    """Sources of drafts, as the settings keep them."""

    AUTO = "auto"
    LOOKUP = "lookup"
    NONE = "none"
    CHOSEN = "chosen"
    """The draft that was last chosen for the model in use; AUTO where none ever was."""


@dataclass(frozen=True, slots=True)
class DraftOf:
    """A draft that was used with a model; both are paths."""

    model: str
    draft: str


@dataclass(frozen=True, slots=True)
class ModelDrafts:
    """The kind of setting that holds them, the last used first."""

    def read(self, value: object) -> tuple[DraftOf, ...]:
        """Return the tables that name a model and a draft."""
        if not isinstance(value, list):
            raise ValueError(value)
        found = [_from_table(table) for table in value]
        return tuple(each for each in found if each is not None)[:_MOST]

    def write(self, value: Sequence[DraftOf]) -> object:
        """Return a table each."""
        return [{"model": each.model, "draft": each.draft} for each in value[:_MOST]]


def _from_table(table: object) -> DraftOf | None:
    if not isinstance(table, dict):
        return None
    model, draft = table.get("model"), table.get("draft")
    usable = all(isinstance(each, str) and 0 < len(each) <= _LONGEST for each in (model, draft))
    return DraftOf(str(model), str(draft)) if usable else None
