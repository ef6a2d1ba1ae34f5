"""Addresses that stand in the text as they are, `https://example.org`, become links.

As in GitHub's markdown, punctuation at the end belongs to the sentence, and a closing parenthesis
to the address only if it opens there. Nothing is loaded: a link is followed when it is clicked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it.rules_inline import StateInline

_SCHEME = re.compile(r"(?<![A-Za-z0-9])https?$", re.IGNORECASE)
_ADDRESS = re.compile(r"://[^\s<>\[\]\"`\u3000-\u303f\uff00-\uffef]+")
_ENDS = ".,;:!?'*_~|\\\u2019\u201d\u2026"
_PAIRS = {")": "(", "}": "{"}


def bare_link(state: StateInline, silent: bool) -> bool:
    """Parse an address from its colon on; its scheme is the text that was read last."""
    if state.src[state.pos] != ":" or state.linkLevel > 0:
        return False
    scheme = _SCHEME.search(state.src[max(state.pos - 6, 0) : state.pos])
    address = _ADDRESS.match(state.src, state.pos)
    if scheme is None or address is None:
        return False
    rest = _without_sentence_end(address[0])
    if not rest.removeprefix("://").strip(_ENDS + "/(){}"):
        return False
    url = scheme[0] + rest
    target = state.md.normalizeLink(url)
    if not state.md.validateLink(target):
        return False
    if not silent:
        if not state.pending.endswith(scheme[0]):
            return False
        state.pending = state.pending[: -len(scheme[0])]
        state.pos -= len(scheme[0])  # where the text before the address ends
        token = state.push("link_open", "a", 1)
        token.attrs, token.markup, token.info = {"href": target}, "linkify", "auto"
        state.push("text", "", 0).content = url
        token = state.push("link_close", "a", -1)
        token.markup, token.info = "linkify", "auto"
        state.pos += len(scheme[0])
    state.pos += len(rest)
    return True


def _without_sentence_end(address: str) -> str:
    """Leave out the marks that end the sentence or the parenthesis which the address is in."""
    while address:
        last = address[-1]
        opening = _PAIRS.get(last)
        extra = opening is not None and address.count(last) > address.count(opening)
        if not extra and last not in _ENDS:
            break
        address = address[:-1]
    return address
