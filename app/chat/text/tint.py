"""Tint and marks over a message's text: where it came from, marks, search hits.

Places are UTF-16 units of the source.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtGui import QTextBlock

from app.chat.text.source_map import utf16_length
from engine.events import Origin, TokenSpan


@dataclass(frozen=True, slots=True)
class Ghost:
    """Drafted text that the target refused, before the source unit number `at`."""

    at: int
    text: str


class Marks:
    """All that is marked in one message, its thoughts included."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._ghosts: list[Ghost] = []
        self._words: re.Pattern[str] | None = None
        self.mark: tuple[int, int] | None = None
        """The one stretch that is marked."""

    @property
    def any(self) -> bool:
        """True if there is anything to paint."""
        return bool(self._starts or self._ghosts or self.mark or self._words)

    @property
    def tinted(self) -> bool:
        """True if anything was drafted."""
        return bool(self._starts)

    def set_tint(self, spans: Sequence[TokenSpan]) -> None:
        """Show which stretches were drafted."""
        self._starts, self._ends = [], []
        self.add_tint(spans)

    def add_tint(self, spans: Sequence[TokenSpan]) -> None:
        """Show of some more, later stretches whether they were drafted."""
        starts, ends = self._starts, self._ends
        for span in spans:
            if span.origin is not Origin.DRAFTED or span.end <= span.start:
                continue
            if ends and ends[-1] == span.start:
                ends[-1] = span.end
            else:
                starts.append(span.start)
                ends.append(span.end)

    def add_ghost(self, ghost: Ghost) -> None:
        """Show a refused stretch; they come in ascending order."""
        self._ghosts.append(ghost)

    def clear_ghosts(self) -> None:
        """Show no refused text."""
        self._ghosts = []

    def set_words(self, words: Sequence[str]) -> None:
        """Mark these words wherever they are."""
        wanted = sorted({word for word in words if word.strip()}, key=len, reverse=True)
        pattern = "|".join(re.escape(word) for word in wanted)
        self._words = re.compile(pattern, re.IGNORECASE) if wanted else None

    def drafted(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """The drafted stretches between two places."""
        index = max(bisect_right(self._starts, first) - 1, 0)
        while index < len(self._starts) and self._starts[index] < last:
            start, end = max(self._starts[index], first), min(self._ends[index], last)
            if start < end:
                yield start, end
            index += 1

    def ghosts(self, first: int, last: int) -> Sequence[Ghost]:
        """The refused stretches from `first` up to and including `last`."""
        start = bisect_left(self._ghosts, first, key=lambda each: each.at)
        end = bisect_right(self._ghosts, last, key=lambda each: each.at)
        return self._ghosts[start:end]

    def hits(self, block: QTextBlock) -> Iterator[tuple[int, int]]:
        """Return where the searched words are in a text block."""
        if self._words is None:
            return
        text = block.text()
        narrow = len(text) == block.length() - 1
        for match in self._words.finditer(text):
            if narrow:
                yield match.span()
            else:
                start = utf16_length(text[: match.start()])
                yield start, start + utf16_length(match[0])
