"""Placeholders that keep typed text from turning into control tokens in a template."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

PRIVATE = range(0x10FFFD, 0xEFFFF, -1)  # the private-use planes, which no template writes
REASONING = re.compile(r"(</?think>)")
_PRIVATE = re.compile(f"[{chr(PRIVATE[-1])}-{chr(PRIVATE[0])}]")
_STRETCH = 1 << 16


class Placeholders:
    """One-to-one placeholders for the characters at which control tokens begin and end.

    With them replaced inside messages, no control token in a rendered text can begin or end in
    a message. Lengths stay as they are, so templates that cut or measure texts work as usual.

    Args:
        control_tokens: texts of the control tokens.
        texts: in which the private-use characters that serve as placeholders do not occur.
    """

    __slots__ = ("_free", "_hide", "restore")

    def __init__(self, control_tokens: Collection[str], texts: Iterable[str]) -> None:
        used = {character for text in texts for character in _PRIVATE.findall(text)}
        self._free: Iterator[str] = (chr(code) for code in PRIVATE if chr(code) not in used)
        edges = sorted({token[edge] for token in control_tokens if token for edge in (0, -1)})
        placeholders = {
            character: next(self._free) for character in edges if not character.isspace()
        }
        self._hide = str.maketrans(placeholders)
        self.restore = {ord(mark): character for character, mark in placeholders.items()}

    def hide(self, text: str) -> str:
        """Return a message's text with its placeholders."""
        return translated(text, self._hide)

    def hide_answer(self, text: str) -> str:
        """Return an answer's text with its placeholders, but `<think>` tags as they are.

        Templates look for them in answers.
        """
        parts = REASONING.split(text)
        return "".join(part if index % 2 else self.hide(part) for index, part in enumerate(parts))

    def mark(self) -> str:
        """Return a fresh placeholder, to stand for something else."""
        return next(self._free)


def translated(text: str, table: Mapping[int, str]) -> str:
    """Return `text.translate(table)`, in pieces of a long text, so that other threads can run."""
    if len(text) <= _STRETCH:
        return text.translate(table)
    starts = range(0, len(text), _STRETCH)
    return "".join(text[start : start + _STRETCH].translate(table) for start in starts)
