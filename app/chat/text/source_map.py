"""The map from the source of a message to the document that shows it, and back.

Three ways to count meet here: characters of the cleaned text that markdown is parsed from, UTF-16
units of the source as it is stored, and positions in the document (UTF-16 units as well).
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

_SHIFTING = re.compile("[\r\U00010000-\U0010ffff]")


def utf16_length(text: str) -> int:
    """Return the number of UTF-16 code units of `text`, which is what Qt counts."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


class Offsets:
    """Map from characters of the cleaned text to UTF-16 units of the source.

    The two drift apart at characters beyond the basic plane, at carriage returns, which the clean
    text lacks, and where parts of the source are left out.
    """

    def __init__(self, start: int = 0) -> None:
        self._wide: list[int] = []
        self._gaps: list[int] = [0]
        self._skipped: list[int] = [start]
        self.length = 0
        """Characters of clean text so far."""

    def feed(self, text: str) -> None:
        """Note the next stretch of source."""
        removed = 0
        for match in _SHIFTING.finditer(text):
            at = self.length + match.start() - removed
            if match[0] == "\r":
                self._skip(at, 1)
                removed += 1
            else:
                self._wide.append(at)
        self.length += len(text) - removed

    def skip(self, units: int) -> None:
        """Leave out the next `units` of the source."""
        self._skip(self.length, units)

    def _skip(self, at: int, units: int) -> None:
        self._gaps.append(at)
        self._skipped.append(self._skipped[-1] + units)

    def utf16(self, clean: int) -> int:
        """The place in the source of the character number `clean`."""
        skipped = self._skipped[bisect_right(self._gaps, clean) - 1]
        return clean + bisect_left(self._wide, clean) + skipped

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """(units, place in the source) of the unbroken stretches of clean text."""
        index = bisect_right(self._gaps, start)
        while start < end:
            stop = min(end, self._gaps[index]) if index < len(self._gaps) else end
            if stop > start:
                wide = bisect_left(self._wide, stop) - bisect_left(self._wide, start)
                yield stop - start + wide, self.utf16(start)
            start, index = max(stop, start), index + 1


class SourceMap:
    """Stretches of a document and the stretches of source they show, both in ascending order.

    A stretch whose lengths are equal shows its source unit by unit; any other (a formula, an
    entity) shows it as a whole.
    """

    def __init__(self) -> None:
        self._document: list[int] = []
        self._document_end: list[int] = []
        self._source: list[int] = []
        self._source_end: list[int] = []

    def __len__(self) -> int:
        return len(self._document)

    def add(self, document: int, length: int, source: int, source_length: int) -> None:
        """Note that `length` units of the document from `document` show a stretch of source."""
        if not length or not source_length:
            return
        if self._source and source < self._source_end[-1]:
            return  # out of order: better no answer than a wrong one
        gap = document - self._document_end[-1] if self._document else -1
        same = gap in {0, 1} and gap == source - self._source_end[-1] and length == source_length
        if same and self._exact(len(self) - 1):
            self._document_end[-1] = document + length
            self._source_end[-1] = source + source_length
            return
        self._document.append(document)
        self._document_end.append(document + length)
        self._source.append(source)
        self._source_end.append(source + source_length)

    def cut(self, document: int) -> None:
        """Forget what shows at or after the position `document`."""
        keep = bisect_left(self._document, document)
        for column in (self._document, self._document_end, self._source, self._source_end):
            del column[keep:]
        if keep and self._document_end[-1] > document:  # a stretch that went on over the border
            self._source_end[-1] -= self._document_end[-1] - document
            self._document_end[-1] = document

    def source_at(self, document: int) -> int:
        """The source shown at a document position, -1 where nothing of it is shown."""
        index = bisect_right(self._document, document) - 1
        if index < 0 or document >= self._document_end[index]:
            return -1
        if not self._exact(index):
            return self._source[index]
        return self._source[index] + document - self._document[index]

    def document_at(self, source: int) -> int:
        """Return the place in the document that shows the source at `source`, or what follows it.

        -1 in an empty document.
        """
        if not self._source:
            return -1
        index = min(bisect_right(self._source_end, source), len(self) - 1)
        return self._to_document(index, source)

    def shown(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The stretches of document that show the source from `start` to `end`."""
        index = max(bisect_right(self._source, start) - 1, 0)
        first = last = -1
        while index < len(self) and self._source[index] < end:
            if self._source_end[index] > start:
                begin = self._to_document(index, start)
                if begin != last:
                    if first >= 0:
                        yield first, last
                    first = begin
                last = self._to_document(index, end)
            index += 1
        if first >= 0:
            yield first, last

    def stretches(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """The stretches of source that are shown between two document positions."""
        index = max(bisect_right(self._document, start) - 1, 0)
        while index < len(self) and self._document[index] < end:
            if self._document_end[index] > start:
                yield self._source[index], self._source_end[index]
            index += 1

    def _exact(self, index: int) -> bool:
        length = self._document_end[index] - self._document[index]
        return length == self._source_end[index] - self._source[index]

    def _to_document(self, index: int, source: int) -> int:
        first, last = self._document[index], self._document_end[index]
        begin, end = self._source[index], self._source_end[index]
        inside = min(max(source, begin), end) - begin
        if not self._exact(index):
            inside = round(inside * (last - first) / (end - begin))
        return first + inside
