"""Text typed by the user: shown as it is, but fenced code (an attached file, say) as code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from app.chat.text.markdown import PLAIN_CHUNK, BlockKind, MarkdownBlock, plain
from engine.model.text.code_fence import FENCE, closes

_LONGEST_CODE = 16_000
"""Longer code is shown as plain text: it would be laid out in one go."""


class TypedText:
    """Cuts a typed text into blocks while it is fed in pieces; the pieces leave no trace."""

    def __init__(self) -> None:
        self._rest = ""
        self._start = 0
        """Place in the text where the rest begins."""
        self._goes_on = False
        """True if the line before the rest belongs to the same stretch of plain text."""
        self._in_line = False
        """True if the rest begins in the middle of a line."""

    def feed(self, text: str) -> Iterator[MarkdownBlock]:
        """The blocks that are complete with this piece."""
        self._rest += text
        yield from self._blocks(ended=False)

    def finish(self) -> Iterator[MarkdownBlock]:
        """The blocks of what is left."""
        yield from self._blocks(ended=True)

    def _blocks(self, *, ended: bool) -> Iterator[MarkdownBlock]:
        at = 0
        while at < len(self._rest):
            fence = None if self._in_line else self._fence(at)
            if fence is None:
                end = self._plain_end(at, ended=ended)
                if end == at:
                    break
                yield from self._plain(at, end)
                self._goes_on, self._in_line = True, self._rest[end - 1] != "\n"
            else:
                end = self._code_end(at, fence)
                if end == 0 and not ended and len(self._rest) - at < _LONGEST_CODE:
                    break
                closed = 0 < end <= at + _LONGEST_CODE
                end = end or len(self._rest)
                if closed:
                    code = self._rest[at:end].removesuffix("\n")
                    yield MarkdownBlock(BlockKind.CODE, code, self._start + at)
                else:
                    yield from self._plain(at, end)
                self._goes_on = not closed
            at = end
        self._rest, self._start = self._rest[at:], self._start + at

    def _fence(self, at: int) -> str | None:
        """The mark of the fence that opens on the line at `at`, if one does."""
        end = self._rest.find("\n", at)
        match = FENCE.match(self._rest[at : end if end >= 0 else at + 200])
        return match[2] if match and end >= 0 else None

    def _code_end(self, at: int, mark: str) -> int:
        """Behind the fence that closes the code begun at `at`; 0 while there is none."""
        line = self._rest.find("\n", at) + 1
        while 0 < line < len(self._rest):
            end = self._rest.find("\n", line)
            if closes(self._rest[line : end if end >= 0 else len(self._rest)], mark):
                return end + 1 if end >= 0 else len(self._rest)
            line = end + 1
        return 0

    def _plain_end(self, at: int, *, ended: bool) -> int:
        """Return the end of the plain text from `at` on: a fence, or the end of whole lines."""
        line = at
        while True:
            end = self._rest.find("\n", line)
            if end < 0:
                break
            line = end + 1
            if line - at >= PLAIN_CHUNK or self._fence(line) is not None:
                return line
        return len(self._rest) if ended or len(self._rest) - at >= PLAIN_CHUNK else at

    def _plain(self, at: int, end: int) -> Iterator[MarkdownBlock]:
        text = self._rest[at:end].removesuffix("\n")
        blocks = plain(text, self._start + at) or [
            MarkdownBlock(BlockKind.PLAIN, "", self._start + at)
        ]
        for index, block in enumerate(blocks):
            if index == 0 and self._goes_on:
                yield replace(block, continues=True, in_line=self._in_line)
            else:
                yield block
