"""A stored message. It stays as it lies in the file until somebody looks: opening must be quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from app.history.columns import (
    unpack_calls,
    unpack_ids,
    unpack_marks,
    unpack_sampling,
    unpack_stats,
)
from app.history.records import AnswerState, TokenMarks
from engine.events import AnswerStats
from engine.request import Role, SamplingParams, ToolCall

_GREEDY = SamplingParams()


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of the active branch.

    `token_ids` are the model's own ids, None for users' messages and where only the text is known.
    A user's message is always COMPLETE; `sampling`, `model`, `signature` and `marks` say how an
    answer was made and are empty otherwise.

    A tool's message is the result of the one call in its `calls`. It is INTERRUPTED until the call
    is allowed, STOPPED from then on, or where it was declined, and COMPLETE or FAILED at its end.
    """

    id: int
    role: Role
    text: str
    token_ids: tuple[int, ...] | None = None
    state: AnswerState = AnswerState.COMPLETE
    stats: AnswerStats | None = None
    failure: str = ""
    """Why the answer failed, in words; known until Duotail ends."""
    sampling: SamplingParams = _GREEDY
    model: str = ""
    signature: str = ""
    marks: TokenMarks | None = None
    parent_id: int | None = None
    version: int = 1
    """Number of this version among its siblings, from 1; deleted ones do not count."""
    versions: int = 1
    created_at: float = 0.0
    """Seconds since the epoch."""
    varied: bool = False
    """True of an answer drawn unlike the setup says, which would have given the same text again."""
    calls: tuple[ToolCall, ...] = ()
    """The tool calls that an answer asks for; of a tool's message the call that it answers."""
    _row: tuple[Any, ...] = field(default=(), init=False, repr=False, compare=False)

    if not TYPE_CHECKING:  # to a type checker, all fields are simply there

        def __getattr__(self, name: str) -> object:
            """The value of a field that nobody has looked at yet."""
            if name == "failure":
                return ""  # no row has it
            if name not in _FIELDS:
                raise AttributeError(name)
            place, unpack = _FIELDS[name]
            value = unpack(self._row[place])
            object.__setattr__(self, name, value)
            return value


def _as_it_is(value: object) -> object:
    return value


_COLUMNS: dict[str, Callable[[Any], object]] = {
    "id": _as_it_is,
    "role": Role,
    "text": _as_it_is,
    "state": AnswerState,
    "token_ids": unpack_ids,
    "marks": unpack_marks,
    "stats": unpack_stats,
    "sampling": unpack_sampling,
    "model": _as_it_is,
    "signature": _as_it_is,
    "parent_id": _as_it_is,
    "created_at": _as_it_is,
    "varied": bool,
    "calls": unpack_calls,
}
MESSAGE_COLUMNS = ", ".join(_COLUMNS)
ID, ROLE, TEXT, STATE, TOKEN_IDS, MARKS = range(6)
_PLACE = {"version": _as_it_is, "versions": _as_it_is}
_FIELDS = {
    name: (place, unpack) for place, (name, unpack) in enumerate((_COLUMNS | _PLACE).items())
}
_ALONE = (1, 1)
_ROLES = {str(role) for role in Role}
_STATES = {str(state) for state in AnswerState}


def messages_of(
    rows: Sequence[tuple[Any, ...]], places: Mapping[int, tuple[int, int]]
) -> list[StoredMessage]:
    """Rows of `MESSAGE_COLUMNS`, and version and number of versions where there are several.

    ValueError where damage left words that mean nothing.
    """
    odd = {row[ROLE] for row in rows} - _ROLES | {row[STATE] for row in rows} - _STATES
    if odd:
        raise ValueError(f"role or state {odd}")
    found = []
    for row in rows:
        message = object.__new__(StoredMessage)
        object.__setattr__(message, "_row", row + places.get(row[ID], _ALONE))
        found.append(message)
    return found
