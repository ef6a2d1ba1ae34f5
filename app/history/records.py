"""What the history hands out, and how its fields look inside SQLite."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any, NewType

from engine.events import AnswerStats
from engine.request import Role, SamplingParams

UndoToken = NewType("UndoToken", int)
"""Given out by a deletion; brings the conversation back until the history is closed."""


class AnswerState(StrEnum):
    """How far an answer got."""

    COMPLETE = "complete"
    STOPPED = "stopped"
    """The user stopped it."""
    INTERRUPTED = "interrupted"
    """Still being written, or the app died while it was."""
    FAILED = "failed"
    FULL = "full"
    """The context was full."""


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """What a conversation sends along with its messages. `seed` None draws a new one each time."""

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

    def sampling(self, seed: int) -> SamplingParams:
        """How the answers are drawn, with this seed."""
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
class Hit:
    """A place where a search found all its words in the text, or in the title (no message)."""

    conversation: Conversation
    message_id: int | None
    snippet: str
    ranges: tuple[tuple[int, int], ...]
    """Where the words are in the snippet, in characters."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of the active branch.

    `token_ids` are the model's own ids, None for users' messages and where only the text is known.
    A user's message is always COMPLETE; `seed`, `model`, `temperature` and `signature` say how an
    answer was made and are empty otherwise.
    """

    id: int
    role: Role
    text: str
    token_ids: tuple[int, ...] | None
    state: AnswerState
    stats: AnswerStats | None
    seed: int
    model: str
    temperature: float = 0.0
    signature: str = ""


def clean_text(text: str) -> str:
    """The text as UTF-8 can hold it: split surrogate pairs joined, lone ones replaced by U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def pack_ids(ids: Sequence[int]) -> bytes:
    """Token ids as little-endian 32-bit words, so that blobs can simply be joined."""
    return struct.pack(f"<{len(ids)}I", *ids)


def unpack_ids(blob: bytes | None) -> tuple[int, ...] | None:
    """The inverse of `pack_ids`; None for no blob, or for one that is not whole words."""
    if blob is None or len(blob) % 4:
        return None
    return struct.unpack(f"<{len(blob) // 4}I", blob)


def pack_seed(seed: int) -> int:
    """SQLite's integers are signed: seeds from 2^63 on are stored as negative numbers."""
    return seed - 2**64 if seed >= 2**63 else seed


def unpack_seed(stored: int) -> int:
    """The inverse of `pack_seed`."""
    return stored % 2**64


def pack_stats(stats: AnswerStats | None) -> str | None:
    """Statistics as JSON, readable by whoever opens the file with another tool."""
    return None if stats is None else json.dumps(asdict(stats))


def unpack_stats(text: str | None) -> AnswerStats | None:
    """Statistics from JSON; None when a field is missing, unknown fields are dropped."""
    if text is None:
        return None
    known = {field.name for field in fields(AnswerStats)}
    try:
        loaded = json.loads(text)
        values: dict[str, Any] = {k: _tuples(v) for k, v in loaded.items() if k in known}
        return AnswerStats(**values)
    except (ValueError, TypeError, AttributeError):
        return None


def _tuples(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value
