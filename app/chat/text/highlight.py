"""Colours for code, as overlays on laid-out lines: the text itself is not touched."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from PySide6.QtGui import QColor, QTextCharFormat, QTextDocument, QTextLayout

from app.chat.text.regions import Property, Region, RegionKind
from app.chat.text.source_map import utf16_length
from app.theme.theme import current
from app.theme.tokens import Tokens

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_log = logging.getLogger(__name__)

_LINES = 40
"""Lines that are coloured between two looks at the clock."""

Spans = list[QTextLayout.FormatRange]


class _Lexers:
    """Lexers by language. A thread makes the first of a kind, which takes long."""

    def __init__(self) -> None:
        self._found: dict[str, Lexer | None] = {"": None}
        self._asked: dict[str, Future[None]] = {}
        self._worker = ThreadPoolExecutor(1, "lexers")

    def want(self, language: str, *, wait: bool = False) -> bool:
        """Return whether the lexer of `language` is there; if not, it is being made."""
        if language not in self._found:
            if language not in self._asked:
                self._asked[language] = self._worker.submit(self._make, language)
            if wait:
                self._asked[language].result()
        return language in self._found

    def get(self, language: str) -> Lexer | None:
        """The lexer that was made; None for an unknown language."""
        return self._found.get(language)

    def _make(self, language: str) -> None:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound

        try:
            self._found[language] = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        except ClassNotFound:
            self._found[language] = None
        except Exception:  # noqa: BLE001 - code without colours, rather than asking for ever
            _log.exception("no lexer for %s", language)
            self._found[language] = None


_LEXERS = _Lexers()


def load_lexer(language: str, *, wait: bool = False) -> None:
    """Get ready to colour code in `language`; `wait` until that is done."""
    _LEXERS.want(language, wait=wait)


def line_formats(code: str, language: str, tokens: Tokens) -> Iterator[Spans] | None:
    """Colour ranges for line after line of `code`; None when the language is unknown.

    Ranges count UTF-16 code units from the start of their line.
    """
    lexer = _LEXERS.get(language)
    if lexer is None:
        return None
    return _lines(((str(kind), text) for kind, text in lexer.get_tokens(code)), tokens)


def _lines(lexed: Iterator[tuple[str, str]], tokens: Tokens) -> Iterator[Spans]:
    styles: dict[str, QTextCharFormat | None] = {}
    line: Spans = []
    column = 0
    for kind, text in lexed:
        if kind not in styles:
            styles[kind] = _style(kind, tokens)
        style = styles[kind]
        for index, part in enumerate(text.split("\n")):
            if index:
                yield line
                line, column = [], 0
            length = utf16_length(part)
            if style is not None and length:
                span = QTextLayout.FormatRange()
                span.start, span.length, span.format = column, length, style
                line.append(span)
            column += length
    yield line


class CodeColours:
    """Colours the code of a document, some lines at a time."""

    def __init__(self, document: QTextDocument) -> None:
        self._document = document
        self._waiting: deque[Region] = deque()
        self._lines: Iterator[Spans] | None = None
        self._number = self._last = 0

    @property
    def busy(self) -> bool:
        """True if there is code that waits for its colours."""
        return bool(self._waiting) or self._lines is not None

    @property
    def ready(self) -> bool:
        """True if the next code can be coloured already."""
        return not self._waiting or _LEXERS.want(self._waiting[0].language)

    def add(self, region: Region) -> None:
        """Colour this code when its turn comes."""
        if region.kind is RegionKind.CODE:
            self._waiting.append(region)
            load_lexer(region.language)

    def clear(self) -> None:
        """Forget all code."""
        self._waiting.clear()
        self._lines = None

    def finish(self) -> None:
        """Colour all there is, now."""
        for region in self._waiting:
            load_lexer(region.language, wait=True)
        self.work(float("inf"))

    def work(self, seconds: float) -> None:
        """Colour lines for about so long, some at least, as far as all is ready for them."""
        end = time.perf_counter() + seconds
        while self.busy:
            if self._lines is None:
                if not self.ready:
                    break
                region = self._waiting.popleft()
                self._lines = line_formats(region.code, region.language, current())
                self._number, self._last = region.first, region.last
            if self._lines is not None:
                self._colour_some(self._lines)
            if time.perf_counter() >= end:
                break

    def _colour_some(self, lines: Iterator[Spans]) -> None:
        block = self._document.findBlockByNumber(self._number)
        start = end = block.position()
        for _ in range(_LINES):
            spans = next(lines, None)
            if spans is None or block.blockNumber() > self._last:
                self._lines = None
                break
            # A line broken for layout goes on in text blocks of its own.
            while True:
                length = block.length() - 1
                block.layout().setFormats(_within(spans, length))
                spans = _beyond(spans, length)
                end = block.position() + block.length()
                block = block.next()
                if not block.blockFormat().hasProperty(Property.CONTINUES):
                    break
        self._number = block.blockNumber()
        if end > start:
            self._document.markContentsDirty(start, end - start)


def _within(spans: Spans, length: int) -> Spans:
    """Return the part of a line's colours in its first `length` units."""
    if not spans or spans[-1].start + spans[-1].length <= length:
        return spans
    return [
        _moved(span, span.start, min(span.length, length - span.start))
        for span in spans
        if span.start < length
    ]


def _beyond(spans: Spans, length: int) -> Spans:
    """Return the part of a line's colours behind its first `length` units, counted from there."""
    return [
        _moved(
            span, max(span.start - length, 0), min(span.length, span.start + span.length - length)
        )
        for span in spans
        if span.start + span.length > length
    ]


def _moved(span: QTextLayout.FormatRange, start: int, length: int) -> QTextLayout.FormatRange:
    result = QTextLayout.FormatRange()
    result.start, result.length, result.format = start, length, span.format
    return result


def _style(kind: str, tokens: Tokens) -> QTextCharFormat | None:
    colour = _colour(kind, tokens)
    if colour is None:
        return None
    style = QTextCharFormat()
    style.setForeground(QColor(colour))
    return style


def _colour(kind: str, tokens: Tokens) -> str | None:
    kind = kind.removeprefix("Token.")
    rules = (
        ("Comment.Preproc", tokens.code_keyword),
        ("Comment", tokens.code_comment),
        ("Keyword.Type", tokens.code_type),
        ("Keyword", tokens.code_keyword),
        ("Operator.Word", tokens.code_keyword),
        ("Literal.String", tokens.code_string),
        ("Literal.Number", tokens.code_number),
        ("Name.Function", tokens.code_name),
        ("Name.Class", tokens.code_type),
        ("Name.Decorator", tokens.code_name),
        ("Name.Builtin", tokens.code_type),
        ("Name.Exception", tokens.code_type),
        ("Name.Namespace", tokens.code_type),
        ("Name.Tag", tokens.code_keyword),
        ("Name.Attribute", tokens.code_name),
        ("Generic.Deleted", tokens.danger),
        ("Generic.Inserted", tokens.success),
    )
    return next((colour for prefix, colour in rules if kind.startswith(prefix)), None)
