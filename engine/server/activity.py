"""What a server tells of its requests, for a window to show: who asks, never what."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """Ends of a request."""

    ANSWERED = "answered"
    REFUSED = "refused"
    LEFT = "left"
    """The client was gone before the end."""


@dataclass(frozen=True, slots=True)
class RequestBegan:
    """A request was let in; it has its turn, or waits for it.

    Attributes:
        at: seconds on the events' clock.
        id: of the request.
        address: of the client.
        program: the name that it gives itself (User-Agent), shortened; it can claim any.
        path: what was asked, such as "/v1/chat/completions".
    """

    at: float
    id: str
    address: str
    program: str
    path: str


@dataclass(frozen=True, slots=True)
class RequestEnded:
    """A request is over; one without an id had no beginning.

    Attributes:
        at: seconds on the events' clock.
        id: of the request; empty of one that was not let in or not understood.
        address: of the client.
        outcome: how it ended.
        status: of the response; 0 where there was none.
        tokens: how many were written.
    """

    at: float
    id: str
    address: str
    outcome: Outcome
    status: int
    tokens: int = 0


ServerEvent = RequestBegan | RequestEnded
