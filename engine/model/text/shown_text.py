"""The text that an answer's tokens show, as it comes."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable

from engine.model.text.channels import ChannelReader, Channels


class ShownText:
    """Takes tokens one at a time and gives whole characters.

    Args:
        spell: a token's bytes.
        leading_spaces: how many spaces are dropped at the start (SentencePiece: one).
        channels: the marks of answers in channels, if the model has them.
    """

    def __init__(
        self, spell: Callable[[int], bytes], leading_spaces: int, channels: Channels | None
    ) -> None:
        self._reader = ChannelReader(channels, spell) if channels else None
        self._spell = self._reader.read if self._reader else spell
        self._marks = channels.marks if channels else frozenset[int]()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._spaces_to_drop = leading_spaces

    def push(self, token: int) -> str:
        """The characters that the token completes."""
        return self._drop_spaces(self._utf8.decode(self._spell(token)))

    def push_all(self, tokens: Iterable[int]) -> str:
        """The characters that some tokens complete."""
        return self._drop_spaces(self._utf8.decode(b"".join(map(self._spell, tokens))))

    def finish(self) -> str:
        """End the text and return what is left; half a character shows as U+FFFD."""
        rest = self._reader.finish() if self._reader else b""
        return self._drop_spaces(self._utf8.decode(rest, final=True))

    @property
    def half(self) -> bool:
        """Tell whether the last tokens end within a character or a header."""
        waiting = self._reader is not None and self._reader.waiting
        return waiting or bool(self._utf8.getstate()[0])

    @property
    def plain(self) -> bool:
        """Tell whether tokens show their own bytes now, unless they are `marks`."""
        return not self.half and not self._spaces_to_drop

    @property
    def marks(self) -> frozenset[int]:
        """Tokens that may show something else than their own bytes."""
        return self._marks

    def forget_half(self) -> None:
        """Begin the next token's text anew."""
        if self._reader:
            self._reader.finish()
        self._utf8.reset()

    def keep_spaces(self) -> None:
        """The text has begun already: all spaces belong to it."""
        self._spaces_to_drop = 0

    def _drop_spaces(self, text: str) -> str:
        if self._spaces_to_drop and text:
            kept = text.lstrip(" ")
            dropped = min(len(text) - len(kept), self._spaces_to_drop)
            text, more = text[dropped:], dropped == len(text)
            self._spaces_to_drop = self._spaces_to_drop - dropped if more else 0
        return text
