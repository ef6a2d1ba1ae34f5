"""Inline markdown (emphasis, code, links, formulas) with the place of every piece in its source.

markdown-it tells lines, not columns. Its inline parser is asked here where it stands whenever it
writes a token; from that the exact place of the token's text follows.

Beside Chinese, Japanese and Korean characters, `*`, `~` and `_` mark more than CommonMark allows:
these languages put no space between a word and the punctuation that is marked with it, or another
word, as in `**注意：**请` and `这是_重点_文字`. Text in other scripts is read as in CommonMark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markdown_it import MarkdownIt
from markdown_it.common.utils import isPunctChar, isWhiteSpace
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.rules_inline.state_inline import Scanned
from markdown_it.token import Token
from markdown_it.utils import EnvType

_AT = "at"
_UP_TO = "up_to"


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Characters `start` to `end` of the inline source."""

    start: int
    end: int


class _State(StateInline):
    """Notes in every token where the parser stood; knows where CJK text may be marked."""

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        token.meta[_AT] = self.pos
        return token

    def pushPending(self) -> Token:  # noqa: N802
        token = super().pushPending()
        token.meta[_UP_TO] = self.pos
        return token

    def scanDelims(self, start: int, canSplitWord: bool) -> Scanned:  # noqa: N802, N803
        found = super().scanDelims(start, canSplitWord)
        before = self.src[start - 1] if start else " "
        end = start + found.length
        after = self.src[end] if end < self.posMax else " "
        if not (_is_cjk(before) or _is_cjk(after)):
            return found
        opens, closes = _flanks(after, before), _flanks(before, after)
        if not canSplitWord:  # an underscore: it stays part of a name such as `变量_x`
            opens = opens and (found.can_open or (_is_cjk(before) and _is_cjk(after)))
            closes = closes and (found.can_close or (_is_cjk(before) and _is_cjk(after)))
        return Scanned(can_open=opens, can_close=closes, length=found.length)


def _flanks(inner: str, outer: str) -> bool:
    """Return whether a mark between these two characters may belong to the `inner` one."""
    if isWhiteSpace(ord(inner)):
        return False
    if not isPunctChar(inner) or _is_cjk(inner):
        return True
    return isWhiteSpace(ord(outer)) or isPunctChar(outer) or _is_cjk(outer)


def _is_cjk(character: str) -> bool:
    """Return whether it is a letter or a punctuation mark of Chinese, Japanese or Korean."""
    wide = unicodedata.east_asian_width(character) in "WFH"
    return wide and unicodedata.category(character) != "So"  # emoji are wide, too


class PlacedInline(ParserInline):
    """The inline parser whose tokens know their places."""

    def __init__(self) -> None:
        super().__init__()
        self.ruler2.disable(["fragments_join"])  # joined tokens would lose their places

    def parse(self, src: str, md: MarkdownIt, env: EnvType, tokens: list[Token]) -> list[Token]:
        """Parse as the base class does, with our state."""
        state = _State(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens


def places(tokens: Sequence[Token], source: str) -> list[SourceRange]:
    """Return where the text of each of the `tokens` parsed from `source` stands in it, in order.

    A place as long as the token's text holds the very same text; any other, what it was made from.
    """
    found: list[SourceRange] = []
    after = 0
    for index, token in enumerate(tokens):
        following = tokens[index + 1] if index + 1 < len(tokens) else None
        place = _place(token, following, source, after)
        found.append(place)
        after = max(after, place.end)
    return found


def _place(token: Token, following: Token | None, source: str, after: int) -> SourceRange:
    length = len(token.content)
    if _UP_TO in token.meta:
        end = int(token.meta[_UP_TO])
        if following is not None and following.type == "link_open" and not following.info:
            end -= 1  # the parser had already passed the bracket
        elif source[end : end + 1] == "\n" and following is not None:
            end = _before_spaces(source, end, token.content)
        return SourceRange(max(end - length, after), max(end, after))
    at = int(token.meta.get(_AT, after))
    match token.type:
        case "hardbreak" if token.markup:
            return SourceRange(at, at + len(token.markup))
        case "softbreak" | "hardbreak":
            line_end = source.find("\n", at)
            start = line_end if line_end >= 0 else at
            return SourceRange(start, start + 1)
        case "code_inline":
            start = at + len(token.markup)
            if source[start : start + length].replace("\n", " ") != token.content:
                start += 1  # one space on either side was taken off
            return SourceRange(start, start + length)
        case "text_special":
            if token.info == "entity" or token.content == token.markup:
                return SourceRange(at, at + len(token.markup))
            return SourceRange(at + 1, at + 1 + length)
        case "image":
            return SourceRange(at + 2, at + 2 + length)
        case "math_inline":
            return SourceRange(at, at + len(token.markup))
        case "text" if source.startswith("<", at):
            same = source.startswith(token.content, at + 1)
            end = at + 1 + length if same else source.find(">", at) + 1
            return SourceRange(at + 1 if same else at, end)
        case "text":
            start = max(at, after)  # the marks of a run are pushed from where it begins
            return SourceRange(start, start + length)
        case _:
            return SourceRange(max(at, after), max(at, after))


def _before_spaces(source: str, end: int, content: str) -> int:
    """The end of `content` before the spaces that a line break swallowed."""
    while end > 0 and source[end - 1] == " " and not source.endswith(content, 0, end):
        end -= 1
    return end
