"""Markdown as HTML in the dialect of the window: it runs nothing and loads nothing.

Tags in the text are text. A picture is a link to it: it could be any file or address, and be
loaded as the page is opened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

from app.markdown.dialect import CELL, LONGEST_TEXT, blocks_only, parser

if TYPE_CHECKING:
    from markdown_it.utils import EnvType, OptionsDict

_SCHEMES = {"http", "https", "mailto"}
_FORMULA = "formula"
FormulaWriter = Callable[[str, bool], str]
"""Takes LaTeX, and whether it stands on lines of its own; returns HTML."""


def html_body(markdown: str, formula: FormulaWriter) -> str:
    """Return what belongs between the tags of a body."""
    blocks, inline = blocks_only(), parser()
    tokens = blocks.parse(markdown)
    before = ""
    for token in tokens:
        if token.type == "inline":
            if len(token.content) > LONGEST_TEXT:
                token.children = [Token("text", "", 0, content=token.content)]
                continue
            token.children = []
            cell = before in {"td_open", "th_open"}
            inline.inline.parse(token.content, inline, {CELL: cell}, token.children)
            _keep_links(token.children)
        before = token.type
    return _Renderer().render(tokens, blocks.options, {_FORMULA: formula})


def leads_out(address: str) -> bool:
    """Return whether an address leads to the web or to mail."""
    try:
        return urlsplit(address).scheme.lower() in _SCHEMES
    except ValueError:
        return False


def _keep_links(tokens: Sequence[Token]) -> None:
    """Make text of links that lead elsewhere than to the web or to mail."""
    kept: list[bool] = []
    for token in tokens:
        if token.type == "link_open":
            kept.append(leads_out(str(token.attrGet("href") or "")))
            if not kept[-1]:
                token.tag, token.attrs = "span", {}
        elif token.type == "link_close" and not kept.pop():
            token.tag = "span"


class _Renderer(RendererHTML):
    """Each public method renders the tokens of its name."""

    def softbreak(
        self, _tokens: Sequence[Token], _idx: int, _options: OptionsDict, _env: EnvType
    ) -> str:
        """Break the line, as the window does."""
        return "<br>\n"

    def image(self, tokens: Sequence[Token], idx: int, _options: OptionsDict, _env: EnvType) -> str:
        """Lead to a picture."""
        token = tokens[idx]
        address = str(token.attrGet("src") or "")
        words = escape(token.content or address)
        return f'<a href="{escape(address)}">{words}</a>' if leads_out(address) else words

    def math_inline(
        self, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType
    ) -> str:
        """Write a formula within a line."""
        return str(env[_FORMULA](tokens[idx].content, False))

    def math_block(
        self, tokens: Sequence[Token], idx: int, _options: OptionsDict, env: EnvType
    ) -> str:
        """Write a formula on lines of its own."""
        return f'<p align="center">{env[_FORMULA](tokens[idx].content, True)}</p>\n'
