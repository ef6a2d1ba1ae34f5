"""Addresses of servers, as users type them."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from engine.errors import UserFixable
from engine.language import tr

_LONGEST = 2000
_USUAL_PATH = "/v1"
_OF_ONE_REQUEST = ("/chat/completions", "/completions", "/models")
"""Ends of addresses that people copy from examples."""


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Address of a server's interface.

    Attributes:
        url: as in "http://192.168.1.5:8000/v1", without a slash at the end.
    """

    url: str

    @classmethod
    def typed(cls, text: str) -> ServerAddress:
        """Return the address that a text means: "192.168.1.5:8000", "https://host/v1/".

        Without a scheme, names on the internet are asked over https, all others over http.

        Raises:
            UserFixable: it means none.
        """
        text = text.strip()
        if not text or len(text) > _LONGEST or not text.isprintable() or " " in text:
            raise _unusable()
        try:
            parts = urlsplit(text if "://" in text else f"//{text}")
            name, port = parts.hostname, parts.port
        except ValueError:
            raise _unusable() from None
        if parts.scheme not in ("", "http", "https") or not name or parts.query or parts.fragment:
            raise _unusable()
        if parts.username is not None:
            raise UserFixable(
                tr("The address holds a user name or a password."),
                tr("Leave it out, and enter the key in its own field."),
            )
        scheme = parts.scheme or ("https" if _on_the_internet(name) else "http")
        shown = f"[{name}]" if ":" in name else name
        where = shown if port is None else f"{shown}:{port}"
        return cls(f"{scheme}://{where}{_path(parts)}")

    @property
    def host(self) -> str:
        """Return name and port, as users see them."""
        return urlsplit(self.url).netloc

    @property
    def local(self) -> bool:
        """True if what is sent stays on this computer."""
        name = urlsplit(self.url).hostname or ""
        if name == "localhost" or name.endswith(".localhost"):
            return True
        with suppress(ValueError):
            return ipaddress.ip_address(name).is_loopback
        return False

    @property
    def encrypted(self) -> bool:
        """True if nobody on the way can read along."""
        return self.url.startswith("https:")


def _path(parts: SplitResult) -> str:
    path = parts.path.rstrip("/")
    for end in _OF_ONE_REQUEST:
        path = path.removesuffix(end)
    return path or _USUAL_PATH


def _on_the_internet(name: str) -> bool:
    """Return whether a host is neither an address in numbers nor a name of the local network."""
    with suppress(ValueError):
        ipaddress.ip_address(name)
        return False
    return "." in name and not name.endswith((".local", ".lan", ".internal", ".localhost"))


def _unusable() -> UserFixable:
    return UserFixable(
        tr("This is not the address of a server."),
        tr("Enter it like http://192.168.1.5:8000 or https://example.org/v1."),
    )
