"""Keeps what people typed from turning into control tokens on its way through a template."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping

PRIVATE = range(0x10FFFD, 0xEFFFF, -1)  # the private-use planes, which no template writes
REASONING = re.compile(r"(</?think>)")
_PRIVATE = re.compile(f"[{chr(PRIVATE[-1])}-{chr(PRIVATE[0])}]")
_STRETCH = 1 << 16


class Disguise:
    """One-to-one stand-ins for the characters at which control tokens begin and end.

    With them replaced inside messages, no control token in a rendered text can begin or end in
    a message. Lengths stay as they are, so templates that cut or measure texts work as usual.
    The stand-ins are private-use characters that occur nowhere in `texts`.
    """

    __slots__ = ("_free", "_hide", "restore")

    def __init__(self, control_tokens: Collection[str], texts: Iterable[str]) -> None:
        used = {character for text in texts for character in _PRIVATE.findall(text)}
        self._free: Iterator[str] = (chr(code) for code in PRIVATE if chr(code) not in used)
        edges = sorted({token[edge] for token in control_tokens if token for edge in (0, -1)})
        stand_ins = {character: next(self._free) for character in edges if not character.isspace()}
        self._hide = str.maketrans(stand_ins)
        self.restore = {ord(mark): character for character, mark in stand_ins.items()}

    def hide(self, text: str) -> str:
        """A message's text, harmless."""
        return translated(text, self._hide)

    def hide_answer(self, text: str) -> str:
        """Like `hide`, but `<think>` tags stay readable: templates look for them in answers."""
        parts = REASONING.split(text)
        return "".join(part if index % 2 else self.hide(part) for index, part in enumerate(parts))

    def mark(self) -> str:
        """A fresh character to stand for something else."""
        return next(self._free)


def translated(text: str, table: Mapping[int, str]) -> str:
    """`str.translate`, which of a long text keeps other threads waiting, in pieces."""
    if len(text) <= _STRETCH:
        return text.translate(table)
    starts = range(0, len(text), _STRETCH)
    return "".join(text[start : start + _STRETCH].translate(table) for start in starts)
