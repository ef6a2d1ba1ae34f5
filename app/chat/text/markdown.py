"""Markdown as blocks that are rendered on their own, none of them long.

A block is a paragraph, heading, list item, quote, table or piece of code. Long code, tables and
paragraphs are chains of blocks that continue one another, so that no block is slow to render.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from engine.model.text.code_fence import FENCE, closes

PLAIN_CHUNK = 4_000
"""Longest block of plain text or code, in characters."""
_CODE_LINES = 32
_TABLE_CELLS = 60
_PARAGRAPH = 1_800
"""Longest block of running text."""
_SEARCHED = 900
_JOINER = "\u200d"

_UNSAFE = str.maketrans(
    {
        "\r": None,
        "\u2029": "\n",
        "\0": "\ufffd",
        "\ufdd0": "\ufffd",  # Qt marks frames with these four
        "\ufdd1": "\ufffd",
        "\ufffc": "\ufffd",
        "\u2028": "\n",
    }
)
_WORDS = re.compile(r"(?:[^\W_]|[ ,.?!'-])+")
_IN_WORDS = re.compile(r"[^\W\d_][,.]? ?\Z")
_SENTENCE_END = re.compile(r"(?:[.!?\u2026]['\")\]]* |[\u3002\uff01\uff1f])(?=[^\W\d_])")


class BlockKind(StrEnum):
    """Kinds of blocks, which are rendered differently."""

    PROSE = "prose"
    CODE = "code"
    TABLE = "table"
    PLAIN = "plain"
    THOUGHT = "thought"
    """Takes the place of a thought, which is shown by a widget of its own."""


@dataclass(frozen=True, slots=True)
class MarkdownBlock:
    """A stretch of markdown that is rendered on its own."""

    kind: BlockKind
    source: str
    start: int = field(default=0, compare=False)
    """Place in the whole text where the block begins, in characters."""
    head: str = field(default="", compare=False)
    """Lines of an earlier block that make sense of this one: a fence, the head of a table."""
    closed: bool = True
    """False for a code block whose closing fence has not come yet."""
    continues: bool = False
    """True if it goes on where the block before it ended."""
    in_line: bool = False
    """True if it goes on in the middle of its predecessor's line."""
    number: int | None = None
    """Number that an item of an ordered list is shown with; None for everything else."""

    @property
    def language(self) -> str:
        """The word after a code block's opening fence."""
        match = FENCE.match(self.head or self.source)
        words = match[3].split() if match else []
        return words[0] if words else ""

    @property
    def lines(self) -> list[str]:
        """The lines of code in a code block."""
        match = FENCE.match(self.head or self.source)
        if match is None:  # indented code
            return [line.expandtabs(4)[4:] for line in self.source.split("\n")]
        lines = self.source.split("\n")[0 if self.head else 1 :]
        if self.closed and lines and closes(lines[-1], match[2]):
            lines.pop()
        indent = len(match[1])
        if indent:
            lines = [line[min(indent, len(line) - len(line.lstrip(" "))) :] for line in lines]
        return lines

    @property
    def code(self) -> str:
        """The text inside a code block."""
        return "\n".join(self.lines)

    @property
    def empty(self) -> bool:
        """True if nothing of it is to be seen: the mere end of a chain."""
        if self.kind is BlockKind.CODE:
            return self.continues and (not self.source or not self.lines)
        return self.continues and not self.source.strip()


def clean(text: str) -> str:
    """`text` without the characters that mean something to the document it is shown in."""
    return text.translate(_UNSAFE)


def plain(text: str, start: int = 0) -> list[MarkdownBlock]:
    """`text` as it is, without any markdown, in pieces that lay out quickly."""
    blocks = []
    at = 0
    while at < len(text):
        end = safe_cut(text, at + PLAIN_CHUNK)
        end = end if end > at else at + PLAIN_CHUNK
        goes_on = at > 0
        chunk = text[at:end]
        blocks.append(
            MarkdownBlock(BlockKind.PLAIN, chunk, start + at, continues=goes_on, in_line=goes_on)
        )
        at = end
    return blocks


@dataclass(slots=True)
class Chain:
    """The rest of a block while pieces of it are split off."""

    kind: BlockKind
    text: str
    start: int
    head: str = ""
    continues: bool = False
    in_line: bool = False

    def block(self, *, closed: bool = True) -> MarkdownBlock:
        """Return all that is left, as a block."""
        return MarkdownBlock(
            self.kind, self.text, self.start, self.head, closed, self.continues, self.in_line
        )

    def split(self) -> Iterator[MarkdownBlock]:
        """Blocks from the beginning, as long as the text is longer than one should be."""
        while cut := self._cut():
            at, in_line = cut
            head = self.head
            text = self.text[:at]
            yield MarkdownBlock(
                self.kind,
                text if in_line else text.removesuffix("\n"),
                self.start,
                head,
                self.kind is not BlockKind.CODE,
                self.continues,
                self.in_line,
            )
            self.head = head or self._own_head()
            self.text = self.text[at:]
            self.start += at
            self.continues, self.in_line = True, in_line

    def _own_head(self) -> str:
        if self.kind is BlockKind.CODE and FENCE.match(self.text):
            return self.text.split("\n", 1)[0]
        if self.kind is BlockKind.TABLE:
            return "\n".join(self.text.split("\n", 2)[:2])
        return ""

    def _cut(self) -> tuple[int, bool] | None:
        """Return where the first block ends, and whether that is within a line.

        None: it ends nowhere yet.
        """
        match self.kind:
            case BlockKind.CODE:
                return self._code_cut()
            case BlockKind.TABLE:
                head = self.head or self._own_head()
                columns = max(head.rsplit("\n", 1)[-1].count("|"), 1)
                rows = max(_TABLE_CELLS // columns, 4) + (0 if self.head else 2)
                at = _after_lines(self.text, rows, len(self.text))
                return (at, False) if at else None
            case BlockKind.PROSE:
                return self._prose_cut()
        return None

    def _code_cut(self) -> tuple[int, bool] | None:
        lines = _CODE_LINES if self.head else _CODE_LINES + 1
        at = _after_lines(self.text, lines, PLAIN_CHUNK)
        if at:
            return (at, False) if self._is_code(at) else None
        if len(self.text) < PLAIN_CHUNK + 80:
            return None
        at = self.text.rfind("\n", 0, PLAIN_CHUNK) + 1
        if at > (0 if self.head else self.text.find("\n") + 1):
            return (at, False) if self._is_code(at) else None
        if FENCE.match(self.head or self.text) is None:
            return None  # the rest of a line would not be code any more
        at = safe_cut(self.text, PLAIN_CHUNK)
        while self.text[at] in "`~ \t" and at > PLAIN_CHUNK - 80:
            at -= 1  # what goes on must not look like the end of the code
        return at, True

    def _is_code(self, at: int) -> bool:
        """Return whether the line that begins at `at` is certainly code, not the code's end."""
        fence = FENCE.match(self.head or self.text)
        if fence is None:
            return bool(self.text[at:].strip())  # blank lines may also be what follows the code
        above = self.text[self.text.rfind("\n", 0, at - 1) + 1 : at - 1]
        line, ended, _ = self.text[at:].partition("\n")
        if closes(above, fence[2]) or closes(line, fence[2]):
            return False
        return bool(ended) or bool(line.strip(f" \t{fence[2][0]}"))

    def _prose_cut(self) -> tuple[int, bool] | None:
        if len(self.text) < _PARAGRAPH + 80:
            return None
        window = self.text[:_PARAGRAPH]
        ends = [match.end() for match in _SENTENCE_END.finditer(window, _SEARCHED)]
        balanced = [end for end in ends if _is_balanced(window[:end])]
        if balanced or ends:
            return (balanced or ends)[-1], True
        at = window.rfind(" ", _SEARCHED) + 1
        if not at or not self.text[at].isalpha():
            at = safe_cut(self.text, _PARAGRAPH)
        return (at, True) if self.text[at].isalpha() else None


def safe_cut(text: str, at: int) -> int:
    """The last place up to `at` where `text` may be cut without splitting what is one character.

    Flags, families of emoji and letters with combining marks are made of several.
    """
    if at >= len(text):
        return len(text)
    lowest = max(at - 64, 1)
    while at > lowest and _joined(text[at - 1], text[at]):
        at -= 1
    return at


def only_adds_words(before: str, more: str) -> bool:
    """Return whether `more` only makes the last line of `before` longer, without a new block.

    The line ends with a letter, so that no mark looks at what comes next.
    """
    return _WORDS.fullmatch(more) is not None and _IN_WORDS.search(before[-3:]) is not None


def _joined(left: str, right: str) -> bool:
    if right < "\u0300":
        return False
    if _JOINER in (left, right) or unicodedata.category(right)[0] == "M":
        return True
    if "\U0001f1e6" <= right <= "\U0001f1ff":
        return "\U0001f1e6" <= left <= "\U0001f1ff"
    return "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f"


def _after_lines(text: str, lines: int, limit: int) -> int:
    """The place after the first `lines` lines of `text`, 0 when there are fewer before `limit`."""
    at = 0
    for _ in range(lines):
        at = text.find("\n", at, limit) + 1
        if not at:
            return 0
    return at


def _is_balanced(text: str) -> bool:
    return not (text.count("**") % 2 or text.count("`") % 2 or text.count("$") % 2)
