"""Events of a server, for a window or a terminal to show: who requests, never what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class RequestState(StrEnum):
    """Stages of a request; the last three are ends."""

    WAITING = "waiting"
    READING = "reading"
    """The prompt."""
    WRITING = "writing"
    DONE = "done"
    REFUSED = "refused"
    GONE = "gone"
    """The client was gone before the end, or the server."""

    @property
    def over(self) -> bool:
        """Tell whether nothing more comes."""
        return self in (RequestState.DONE, RequestState.REFUSED, RequestState.GONE)


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """All that a server tells of a request, anew at each change.

    Attributes:
        id: of the request.
        started_at: Unix time.
        address: of the client.
        user_agent: what the client calls itself, shortened; it can claim anything.
        path: such as "/v1/chat/completions".
        model: its name; empty before it is known.
        state: how far it is.
        code: HTTP status of the response; 0 before there is one.
        prompt_tokens: length of the prompt.
        tokens: how many were written.
        tokens_per_s: as in `AnswerStats`.
        reason: why it was refused, in a word that quotes nothing of it.
    """

    id: str
    started_at: float
    address: str
    user_agent: str
    path: str
    model: str = ""
    state: RequestState = RequestState.WAITING
    code: int = 0
    prompt_tokens: int = 0
    tokens: int = 0
    tokens_per_s: float | None = None
    reason: str = ""
