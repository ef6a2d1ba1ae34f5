"""Answers in channels, as gpt-oss writes them: thoughts in one, what is said in another.

An answer's tokens are `<|channel|>analysis<|message|>`, thoughts, `<|end|><|start|>assistant`
`<|channel|>final<|message|>`, and what is said. It shows as `<think>`, thoughts, `</think>`, and
what is said. Messages in any other channel show as they are, their marks included: nothing that a
model writes is swallowed. What is stored are the tokens themselves, so an answer is continued
exactly; the next question is asked with what was said alone, as the template wants it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
