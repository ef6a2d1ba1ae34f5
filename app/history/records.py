"""Records that the history hands out."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, repeat
from typing import Self

from engine.events import Origin, TokenSpan
from engine.request import SamplingParams

_MOST_UNITS = 2**15 - 1


class AnswerState(StrEnum):
    """States of an answer: being written, or how it ended."""

    COMPLETE = "complete"
    STOPPED = "stopped"
    """The user stopped it."""
    INTERRUPTED = "interrupted"
    """Still being written, or the app died while it was."""
    FAILED = "failed"
    FULL = "full"
    """The context was full."""
    REPEATED = "repeated"
    """It repeated itself and was stopped for that."""


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """Setup of a conversation, sent with its messages. `seed` None draws a new one each time."""

    system_prompt: str = ""
    preset: str = ""
    """Name of the preset these values came from, "" for the conversation's own."""
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None
    thinking: bool | None = None
    thought_tokens: int | None = None
    """Tokens that a thought may take; None: as many as it likes."""
    seen_after: int | None = None
    """Messages up to this one are left out to make room: the model does not see them."""
    instructions: bool = True
    """True if the user's custom instructions come before the system prompt."""
    tools: tuple[str, ...] = ()
    """Keys of the tools that answers may call; see `app.tools.toolbox`."""

    def of_preset(self) -> ChatSetup:
        """Return what a preset can set, without what belongs to the conversation alone."""
        return replace(self, preset="", seen_after=None, instructions=True, tools=())

    def with_instructions(self, text: str) -> ChatSetup:
        """Return the setup as it is sent: with the user's `text` before the system prompt.

        It comes first, so that conversations with other prompts begin alike in the prefix cache.
        """
        parts = (text.strip() if self.instructions else "", self.system_prompt.strip())
        return replace(self, system_prompt="\n\n".join(filter(None, parts)))

    def sampling(self, seed: int) -> SamplingParams:
        """Return the sampling parameters, with this seed."""
        return SamplingParams(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            seed=seed,
        )


@dataclass(frozen=True, slots=True)
class Folder:
    """A place for conversations."""

    id: int
    name: str


EARLIEST = 32 * 86_400.0
"""Earliest time of a conversation, in seconds since the epoch; Windows has no local time for 0."""


@dataclass(frozen=True, slots=True)
class Conversation:
    """One line of the conversation list; `updated_at` is seconds since the epoch."""

    id: int
    title: str
    updated_at: float
    folder_id: int | None = None
    pinned: bool = False
    setup: ChatSetup = ChatSetup()


@dataclass(frozen=True, slots=True)
class UndoToken:
    """Brings back what a deletion hid, as long as that lies in the trash."""

    conversation_id: int
    message_id: int | None = None
    """The message deleted with all below it; None: the whole conversation."""
    leaf: int | None = None
    """The former end of the branch, if the deletion changed it."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where a search found all its words in the text, or in the title (no message)."""

    conversation: Conversation
    message_id: int | None
    snippet: str
    ranges: tuple[tuple[int, int], ...]
    """Places of the words in the snippet, in characters."""


@dataclass(frozen=True, slots=True)
class TokenMarks:
    """Origin of each token of an answer, drafted or not, and how much text it wrote."""

    packed: bytes = b""
    """Two bytes per token, little-endian: UTF-16 units * 2 + (1 where it was drafted)."""

    @classmethod
    def of(cls, spans: Sequence[TokenSpan]) -> Self:
        """The marks of tokens that follow each other."""
        words = [
            min(span.end - span.start, _MOST_UNITS) * 2 + (span.origin is Origin.DRAFTED)
            for span in spans
        ]
        return cls(struct.pack(f"<{len(words)}H", *words))

    def __add__(self, more: TokenMarks) -> TokenMarks:
        return TokenMarks(self.packed + more.packed)

    def __len__(self) -> int:
        return len(self.packed) // 2

    def spans(self, token_ids: Sequence[int] | None = None) -> tuple[TokenSpan, ...]:
        """One span per token from the start of the text; the id is -1 where it is not given."""
        ids = chain(token_ids or (), repeat(-1))
        start, found = 0, []
        for (word,), token_id in zip(struct.iter_unpack("<H", self.packed), ids, strict=False):
            end = start + word // 2
            origin = Origin.DRAFTED if word % 2 else Origin.TARGET
            found.append(TokenSpan(token_id, start, end, origin))
            start = end
        return tuple(found)
