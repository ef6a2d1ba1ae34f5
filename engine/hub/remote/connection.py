"""Questions to the hub's API: one request each, bounded in time and size; answers are distrusted.

The library's own `HfApi` reads an answer of any length for as long as it comes, and takes its
members as they are, so only its session is used. Only worker processes and the command line import
this; the hub's library comes with it.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NoReturn
from urllib.parse import urlsplit
from urllib.request import getproxies

from huggingface_hub import constants, get_session

from engine.hub.messages import Access
from engine.hub.remote.addresses import endpoint_of
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, of_status, refuse, trouble_of

LARGEST_FILE = 1 << 44
"""Bytes: 16 TiB. No weights are larger; what says so is broken."""
MOST_PARAMETERS = 1 << 50
_MOST_COUNT = 1 << 53
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class ServerObject:
    """The members of an object that a server sent."""

    data: Mapping[str, object]

    @classmethod
    def read(cls, text: bytes) -> ServerObject:
        """Read an object in JSON; `HubError` for anything else."""
        found = parsed(text)
        return cls(found) if isinstance(found, dict) else unreadable("no object")

    def text(self, key: str, longest: int = _LONGEST_TEXT) -> str:
        """Return a text on one line; "" where there is none."""
        value = self.data.get(key)
        usable = isinstance(value, str) and 0 < len(value) <= longest and value.isprintable()
        return str(value) if usable else ""

    def count(self, key: str, most: int = _MOST_COUNT) -> int | None:
        """Return a number of things; None where it makes no sense."""
        value = self.data.get(key)
        usable = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most
        return value if isinstance(value, int) and usable else None

    def required_size(self, key: str, what: str) -> int:
        """Return the bytes of a file; `HubError` where they make no sense."""
        size = self.count(key, LARGEST_FILE)
        return unreadable(f"size of {what}: {self.data.get(key)!r:.40}") if size is None else size

    def member(self, key: str) -> ServerObject:
        """Return an object in this one; an empty one where there is none."""
        value = self.data.get(key)
        return ServerObject(value if isinstance(value, dict) else {})

    def texts(self, key: str, most: int = 2000) -> tuple[str, ...]:
        """Return a list of texts, or a single one as a list."""
        value = self.data.get(key)
        several = value if isinstance(value, list) else [value]
        return tuple(
            each for each in several[:most] if isinstance(each, str) and 0 < len(each) <= 400
        )

    def time(self, key: str) -> float | None:
        """Return a moment, in seconds since 1970; None where there is none."""
        try:
            return datetime.fromisoformat(self.text(key)).timestamp()
        except (ValueError, OverflowError, OSError):
            return None


def parsed(text: bytes) -> object:
    """Return what a server sent as JSON; `HubError` where it is none."""
    try:
        return json.loads(text, parse_constant=unreadable)
    except (ValueError, RecursionError) as error:
        return unreadable(f"no JSON: {error}")


def objects(value: object, most: int) -> Sequence[Mapping[str, object]]:
    """Return the objects of a list; what is something else among them is left out."""
    if not isinstance(value, list):
        return unreadable("no list")
    return [each for each in value[:most] if isinstance(each, dict)]


def unreadable(what: str) -> NoReturn:
    """Raise the error for an answer that is none of the hub's."""
    raise refuse(Fault.UNREADABLE, what)


Parameters = Mapping[str, str | Sequence[str]]

_CONNECT_S = 5.0
"""Seconds after which a user who is offline hears of it."""
_READ_S = 15.0
"""Between two pieces of an answer."""
_WHOLE_S = 60.0
_LARGEST_ANSWER = 64 << 20
_LARGEST_REFUSAL = 64 << 10


class StaleRequest(Exception):
    """Nobody waits for the answer any more."""


class Connection:
    """A connection to one hub, as one user or as nobody.

    Args:
        access: how to get there.
        is_stale: whether the answer is no longer wanted; asked between its pieces.
        accept: what kind of answer is wanted.
    """

    def __init__(
        self,
        access: Access,
        is_stale: Callable[[], bool] = lambda: False,
        accept: str = "application/json",
    ) -> None:
        self.endpoint = endpoint_of(access)
        self._headers = {"user-agent": "duotail", "accept": accept}
        if access.token:
            self._headers["authorization"] = f"Bearer {access.token}"
        self._is_stale = is_stale

    def json(self, path: str, parameters: Parameters | None = None) -> object:
        """Return what the hub answers in JSON.

        Raises:
            HubError: it cannot be asked, refuses, or says what no hub says.
            StaleRequest: the answer is no longer wanted.
        """
        return parsed(self.content(path, parameters))

    def content(
        self, path: str, parameters: Parameters | None = None, largest: int = _LARGEST_ANSWER
    ) -> bytes:
        """Return the bytes that the hub answers; raises as `json`, also for more than `largest`."""
        try:
            return self._content(path, parameters, largest)
        except (HubError, StaleRequest):
            raise
        except Exception as error:  # the library's, httpx's, the system's: told apart there
            raise HubError(trouble_of(error)) from error

    def _content(self, path: str, parameters: Parameters | None, largest: int) -> bytes:
        if constants.HF_HUB_OFFLINE:  # which forbids to ask for the server's name, too
            raise refuse(Fault.OFFLINE, BY_CHOICE)
        make_sure_of(self.endpoint, _CONNECT_S)
        end = time.monotonic() + _WHOLE_S
        request = get_session().stream(
            "GET",
            f"{self.endpoint}{path}",
            params=dict(parameters or {}),
            headers=self._headers,
            timeout=(_CONNECT_S, _READ_S, _READ_S, _CONNECT_S),
            follow_redirects=True,
        )
        with request as response:
            refused = response.status_code >= 400
            most = _LARGEST_REFUSAL if refused else largest
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                if self._is_stale():
                    raise StaleRequest
                if len(body) > most or time.monotonic() > end:
                    break
            if refused:
                raise HubError(of_status(response.status_code, response.headers))
            if len(body) > most:
                raise refuse(Fault.UNREADABLE, f"more than {most} bytes")
            if time.monotonic() > end:
                raise refuse(Fault.TIMEOUT, f"more than {_WHOLE_S} s")
            if not response.is_success:
                raise refuse(Fault.UNREADABLE, f"HTTP {response.status_code}")
            return bytes(body)


_reached: set[str] = set()
"""Names that were known; they are not asked for twice."""


def make_sure_of(endpoint: str, within_s: float) -> None:
    """Check within a time limit that a server's name is known, unless a proxy has to know it.

    Raises:
        HubError: it is not known, or nobody says so in time.
    """
    try:
        host = urlsplit(endpoint).hostname
    except ValueError:
        return  # whoever connects says what is wrong with it
    if host is None or host in _reached or getproxies().keys() - {"no"}:
        return
    errors = list[OSError | UnicodeError]()

    def ask() -> None:
        try:
            socket.getaddrinfo(host, None)
            _reached.add(host)
        except (OSError, UnicodeError) as error:
            errors.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(within_s)
    if host not in _reached:
        why = str(errors[0]) if errors else f"no name server answers within {within_s} s"
        raise refuse(Fault.OFFLINE, f"{host}: {why}")
