"""Placeholders that keep control tokens out of what people and models have written."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from engine.model.text.thinking import AnswerPart, pieces_of
from engine.model.text.tokenizer import translated

PRIVATE = range(0x10FFFD, 0xEFFFF, -1)  # the private-use planes, which no template writes
_PRIVATE = re.compile(f"[{chr(PRIVATE[-1])}-{chr(PRIVATE[0])}]")


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
        ends = {token[edge] for token in control_tokens if token for edge in (0, -1)}
        edges = sorted(ends | {"<"})  # with which the tags of thoughts begin
        placeholders = {
            character: next(self._free) for character in edges if not character.isspace()
        }
        self._hide = str.maketrans(placeholders)
        self.restore = {ord(mark): character for character, mark in placeholders.items()}

    def hide(self, text: str) -> str:
        """Return a message's text with its placeholders."""
        return translated(text, self._hide)

    def hide_answer(self, text: str) -> str:
        """Return an answer's text with its placeholders, but the tags of its thoughts as they are.

        Templates look for them in answers, and drop what is before. Tags that an answer only
        mentions are hidden, so that templates do not take them for its thoughts.
        """
        texts = (AnswerPart.SAID, AnswerPart.THOUGHT)
        return "".join(
            self.hide(piece.text) if piece.part in texts else piece.text
            for piece in pieces_of(text)
        )

    def hide_json(self, value: object) -> object:
        """Return a JSON value with the placeholders in all its texts."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, list):
            return [self.hide_json(each) for each in value]
        if isinstance(value, dict):
            return {self.hide(str(key)): self.hide_json(each) for key, each in value.items()}
        return value

    def mark(self) -> str:
        """Return a fresh placeholder, to stand for something else."""
        return next(self._free)
