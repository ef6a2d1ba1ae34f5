"""The markdown that is understood: CommonMark, tables, strike-through, bare links and formulas.

Raw HTML and link definitions are plain text: an answer never hides a line. Only `<br>` in a table
breaks the cell's line, which markdown has no other way to do. Formulas stand in
`$...$`, `\\(...\\)`, `$$...$$`, `\\[...\\]` or a LaTeX environment of their own. Dollars are money
unless what is between two of them touches both and looks like a formula.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported with the first text: the window comes up without it
    from markdown_it import MarkdownIt
    from markdown_it.ruler import RuleOptionsType
    from markdown_it.rules_block import StateBlock
    from markdown_it.rules_inline import StateInline

MAX_NESTING = 24
LONGEST_TEXT = 6_000
"""Longer texts get no emphasis or links: their marks are shown as they are."""
GROWING = "growing"
"""True in the parser's environment if more text may come."""
CELL = "cell"
"""True in the parser's environment for the text of a table's cell."""
OPEN_FORMULA = "open_formula"
"""Token for the lines at the end of growing text that may yet become a formula."""
_LONGEST_FORMULA = 2_000
_WORDS = re.compile(r"[^\W\d_]{3,}\s+[^\W\d_]{2,}")
_MATHS = re.compile(r"[\\^_=]")
_ENVIRONMENT = re.compile(
    r"\\begin\{((?:align|aligned|alignat|equation|gather|gathered|multline|eqnarray|split|cases"
    r"|array|[pbvBV]?matrix)\*?)\}"
)
_LINE_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_FENCES = {"$$": "$$", "\\[": "\\]"}
_AFTER = {"", ".", ",", ";", ":"}


@cache
def parser() -> MarkdownIt:
    """The parser with inline markdown; its inline tokens know their places."""
    from app.markdown.bare_links import bare_link
    from app.markdown.inline import PlacedInline

    dialect = _dialect()
    inline = PlacedInline()
    inline.ruler.before("escape", "math_inline", _inline_formula)
    inline.ruler.after("linkify", "bare_link", bare_link)
    inline.ruler.before("autolink", "line_break", _line_break)
    inline.ruler.disable(["html_inline", "linkify"])
    dialect.inline = inline
    return dialect


@cache
def blocks_only() -> MarkdownIt:
    """The parser that only finds blocks."""
    return _dialect().disable(["inline", "text_join"])


def _dialect() -> MarkdownIt:
    from markdown_it import MarkdownIt
    from markdown_it.rules_block import table

    options = {"html": False, "maxNesting": MAX_NESTING}
    dialect = MarkdownIt("commonmark", options).enable("strikethrough")
    dialect.disable(["reference", "html_block", "html_inline"]).disable("text_join")
    interrupts: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    dialect.block.ruler.before("fence", "math_block", _formula_block, interrupts)
    # The parser's own place for it is the first, where it takes items of lists and quotes for rows.
    within: RuleOptionsType = {"alt": ["paragraph", "reference"]}
    dialect.block.ruler.before("lheading", "table_after_lists", table, within)
    return dialect


def _line_break(state: StateInline, silent: bool) -> bool:
    """Parse a tag that breaks the line in a table's cell."""
    found = _LINE_BREAK.match(state.src, state.pos) if state.env.get(CELL) else None
    if found is None:
        return False
    if not silent:
        state.push("hardbreak", "br", 0).markup = found[0]
    state.pos = found.end()
    return True


def _inline_formula(state: StateInline, silent: bool) -> bool:
    """Parse a formula within a line."""
    source, at = state.src, state.pos
    opening = source[at : at + 2]
    if opening == "$$" or opening in {"\\(", "\\["}:
        closing = {"$$": "$$", "\\(": "\\)", "\\[": "\\]"}[opening]
        start = at + 2
    elif source[at] == "$":
        closing, start = "$", at + 1
    else:
        return False
    end = source.find(closing, start, min(state.posMax, start + _LONGEST_FORMULA))
    content = source[start:end]
    if end < 0 or not content.strip():
        return False
    after = end + len(closing)
    before, following = source[at - 1 : at], source[after : after + 1]
    if closing == "$" and (before.isalnum() or not _is_formula(content, following)):
        return False
    if not silent:
        token = state.push("math_inline", "", 0)
        token.content, token.markup = content, source[at:after]
    state.pos = after
    return True


def _is_formula(content: str, following: str) -> bool:
    """Return whether `content` between two dollars is a formula, no text between two prices."""
    if content[0].isspace() or content[-1].isspace() or content[-1] == "\\":
        return False
    if following.isalnum():
        return False
    return bool(_MATHS.search(content)) or not _WORDS.search(content)


def _formula_block(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """Parse a formula on lines of its own; it ends before the next blank line or not at all."""
    if state.is_code_block(first):
        return False
    start = state.bMarks[first] + state.tShift[first]
    body = state.src[start : state.eMarks[first]]
    environment = _ENVIRONMENT.match(body)
    if environment is not None:
        closing = f"\\end{{{environment[1]}}}"
    elif body[:2] in _FENCES:
        closing, body = _FENCES[body[:2]], body[2:]
    else:
        return False
    kind, after = "math_block", first + 1
    # An environment may hold others of its name, a pair of fences holds no fence.
    divide = str.partition if environment is None else str.rpartition
    while True:
        formula, found, mark = divide(body, closing)
        if found and mark.strip() in _AFTER and formula.strip():
            break
        if (found and environment is None) or len(body) > _LONGEST_FORMULA * 2:
            return False
        if after == len(state.bMarks) - 1 and state.env.get(GROWING):
            kind = OPEN_FORMULA
            break
        if after >= end or state.isEmpty(after) or state.sCount[after] < state.blkIndent:
            return False
        body += "\n" + state.getLines(after, after + 1, state.blkIndent, False)
        after += 1
    if silent:
        return True
    token = state.push(kind, "", 0)
    token.content = f"{formula}{closing if environment else ''}{mark}".strip()
    token.map, token.block = [first, after], True
    state.line = after
    return True
