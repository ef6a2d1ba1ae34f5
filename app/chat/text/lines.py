"""Places in a block's source of the contents that the markdown parser takes out of its lines.

The parser strips what encloses a content (indentation, the marks of quotes, lists and headings, the
bars of tables) from each line; what is left is still there, in the same order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class SourcePlaces:
    """Stretches of a content (from `starts[i]` on) that stand at `sources[i]` of the source."""

    starts: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)

    def add(self, start: int, source: int) -> None:
        """Note that the content from character `start` on stands at `source`."""
        self.starts.append(start)
        self.sources.append(source)

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int, int]]:
        """(start, end, source) of the unbroken stretches between two places of the content."""
        index = bisect_right(self.starts, start) - 1
        while 0 <= index < len(self.starts) and start < end:
            border = self.starts[index + 1] if index + 1 < len(self.starts) else end
            stop = min(end, border)
            yield start, stop, self.sources[index] + start - self.starts[index]
            start, index = stop, index + 1


class SourceLines:
    """The lines of a block's source."""

    def __init__(self, source: str) -> None:
        self._lines = source.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def paragraph(self, content: str, first: int) -> SourcePlaces:
        """The place of a content whose lines are source lines from number `first` on."""
        placed = SourcePlaces()
        start = 0
        for number, line in enumerate(content.split("\n"), first):
            if number < len(self._lines) and line:
                column = _column(line, self._lines[number])
                if column >= 0:
                    placed.add(start, self._starts[number] + column)
            start += len(line) + 1
        return placed

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the start of source line `first` and the end of the line before `last`."""
        number = min(max(last, first + 1), len(self._lines))
        return self._starts[min(first, len(self._lines) - 1)], self._starts[number] - 1

    def cells(self, contents: Sequence[str], number: int) -> list[SourcePlaces]:
        """The places of the cells of a table's row, which is source line `number`."""
        line = self._lines[number] if number < len(self._lines) else ""
        start, after = self._starts[min(number, len(self._lines))], 0
        found = []
        for content in contents:
            placed = SourcePlaces()
            found.append(placed)
            pieces = content.split("|")  # a bar in a cell was typed as \|
            column = line.find("\\|".join(pieces), after) if content else -1
            if column < 0:
                continue
            inside = 0
            for piece in pieces:
                placed.add(max(inside - 1, 0), start + column - (1 if inside else 0))
                inside += len(piece) + 1
                column += len(piece) + 2
            after = column - 2
        return found


def _column(content: str, line: str) -> int:
    """Return where `content` begins in its `line`; -1 where tabs made it another text."""
    if line.endswith(content):
        return len(line) - len(content)
    stripped = line.rstrip()
    if stripped.endswith(content):
        return len(stripped) - len(content)
    return line.rfind(content)  # a heading may be closed with marks
