"""Texts of a row in a list. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """Meaning of a badge; each has a sign of its own beside its colour."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class RowBadge:
    """A badge: never a colour alone.

    Attributes:
        text: a word or two.
        tip: the whole reason.
    """

    text: str
    tone: Tone = Tone.PLAIN
    tip: str = ""


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """Two lines, and perhaps a badge; a heading has one line and cannot be chosen.

    Attributes:
        share: how far something has come, from 0 to 1; None: no bar is drawn.
    """

    title: str
    about: str = ""
    mark: RowBadge | None = None
    tip: str = ""
    heading: bool = False
    share: float | None = None

    @property
    def spoken(self) -> str:
        """Return all of it in one line."""
        parts = (self.title, self.about, self.mark.text if self.mark is not None else "")
        return ", ".join(part for part in parts if part)
