"""The text that an answer's tokens show, as it comes; some models write answers in channels.

An answer's tokens in channels, as gpt-oss writes them, are `<|channel|>analysis<|message|>`,
thoughts, `<|end|><|start|>assistant` `<|channel|>final<|message|>`, and what is said. It shows as
`<think>`, thoughts, `</think>`, and what is said. Messages in any other channel show as they are,
their marks included: nothing that a model writes is swallowed. What is stored are the tokens
themselves, so an answer is continued exactly; the next question is asked with what was said alone,
as the template wants it.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

THOUGHT_BEGINS, THOUGHT_ENDS = "<think>\n", "\n</think>\n\n"
_THOUGHTS, _SPEECH = "analysis", "final"
_LONGEST_HEADER = 100
"""Tokens between a mark that begins a message and the one that ends its header."""


@dataclass(frozen=True, slots=True)
class Channels:
    """The ids of the marks."""

    start: int
    channel: int
    message: int
    end: int

    @classmethod
    def of(cls, control_tokens: Mapping[str, int]) -> Channels | None:
        """The channels of a vocabulary that has all marks, or None."""
        marks = ("<|start|>", "<|channel|>", "<|message|>", "<|end|>")
        found = [control_tokens[mark] for mark in marks if mark in control_tokens]
        return cls(*found) if len(found) == len(marks) else None

    @property
    def marks(self) -> frozenset[int]:
        """All marks."""
        return frozenset((self.start, self.channel, self.message, self.end))

    def said(self, ids: Sequence[int], spell: Callable[[int], bytes]) -> list[int] | None:
        """The tokens of the last message for the reader; None for an answer without one."""
        reader = ChannelReader(self, spell)
        said: list[int] | None = None
        for token in ids:
            reader.read(token)
            if reader.channel != _SPEECH:
                continue
            if token == self.message:
                said = []
            elif said is not None and token not in self.marks:
                said.append(token)
        return said

    def tokens_of(self, text: str, encode: Callable[[str], list[int]]) -> list[int]:
        """Return the tokens with which an answer that shows as `text` would have been written.

        `encode` turns text with marks into ids; no mark may come from the text itself.
        """
        thought, closed, said = text.partition(THOUGHT_ENDS.strip())
        if not text.startswith(THOUGHT_BEGINS.strip()):
            return [*self._header(_SPEECH, encode), *encode(text)]
        ids = [*self._header(_THOUGHTS, encode)]
        ids += encode(thought.removeprefix(THOUGHT_BEGINS.strip()).strip("\n"))
        if closed:
            ids += [self.end, self.start, *encode("assistant"), *self._header(_SPEECH, encode)]
            ids += encode(said.removeprefix("\n\n"))
        return ids

    def _header(self, channel: str, encode: Callable[[str], list[int]]) -> list[int]:
        return [self.channel, *encode(channel), self.message]


def said_in(text: str) -> str:
    """Return what a shown answer says without its thoughts: nothing while it is still thinking."""
    if not text.startswith(THOUGHT_BEGINS.strip()):
        return text
    _, closed, said = text.rpartition(THOUGHT_ENDS.strip())
    return said.removeprefix("\n\n") if closed else ""


class ChannelReader:
    """Turns tokens into the bytes that they show, one at a time.

    The tokens of a message's header show nothing until it is complete.
    """

    def __init__(self, channels: Channels, spell: Callable[[int], bytes]) -> None:
        self._channels = channels
        self._spell = spell
        self._header: list[int] = []
        self.channel = ""
        """The channel of the message that is being read, once it is known."""

    @property
    def waiting(self) -> bool:
        """Tell whether a header is incomplete."""
        return bool(self._header)

    def read(self, token: int) -> bytes:
        """Return the bytes that the next token shows, and those before it that had to wait."""
        marks = self._channels
        if self._header:
            return self._read_header(token)
        if token in (marks.start, marks.channel):
            self._header = [token]
            return b""
        if token == marks.end and self.channel in (_THOUGHTS, _SPEECH):
            return self._close()
        return self._spell(token)

    def finish(self) -> bytes:
        """Return the bytes of an incomplete header, which will not be completed."""
        header, self._header = self._header, []
        return b"".join(map(self._spell, header))

    def _read_header(self, token: int) -> bytes:
        marks, header = self._channels, self._header
        again = token == marks.start or (token == marks.channel and marks.channel in header)
        if token == marks.end or again or len(header) > _LONGEST_HEADER:
            return self.finish() + self.read(token)
        header.append(token)
        if token != marks.message:
            return b""
        written, name = self.finish(), self._named(header)
        closed = self._close()
        self.channel = name
        if name == _THOUGHTS:
            return closed + THOUGHT_BEGINS.encode()
        return closed if name == _SPEECH else closed + written

    def _named(self, header: Sequence[int]) -> str:
        """The channel of a header in which there is nothing else to know."""
        at = header.index(self._channels.channel) if self._channels.channel in header else 0
        role, name = header[:at], header[at + 1 : -1]
        plain = not role or b"".join(map(self._spell, role[1:])) == b"assistant"
        return b"".join(map(self._spell, name)).decode("utf-8", "replace") if plain else ""

    def _close(self) -> bytes:
        """End the message."""
        thinking, self.channel = self.channel == _THOUGHTS, ""
        return THOUGHT_ENDS.encode() if thinking else b""


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
