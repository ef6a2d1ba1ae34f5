"""Whether a server's name is known, asked with a limit in time.

The system's own question has none that a program could set: without a network it may take half a
minute, and a connection's limit begins only after it.
"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit
from urllib.request import getproxies

from engine.hub.remote.faults import Fault
from engine.hub.remote.trouble import refuse

_reached: set[str] = set()
"""Names that were known; they are not asked for twice."""


def make_sure_of(endpoint: str, within_s: float) -> None:
    """Nothing where the server's name is known, or a proxy has to know it.

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
