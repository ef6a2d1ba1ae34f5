"""Questions to the hub's API: one request each, bounded in time and size.

The library's own `HfApi` reads an answer of any length for as long as it comes, so only its session
is used. Only worker processes and the command line import this; the hub's library comes with it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit
from urllib.request import getproxies

from huggingface_hub import constants, get_session

from engine.hub.remote.addresses import endpoint_of
from engine.hub.remote.answer import parsed
from engine.hub.remote.faults import BY_CHOICE, Fault, HubError, of_status, refuse, trouble_of
from engine.hub.remote.listing import Access

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
