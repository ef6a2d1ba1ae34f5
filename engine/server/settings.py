"""How a server is reached, by whom, and how much it takes."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.errors import UserFixable
from engine.language import tr
from engine.machine.keyring import keep_secret, kept_secret

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_SECRET = "server"
"""Name of the token in the keyring."""
_LONGEST = 400
_SHORTEST_BEYOND = 16
"""Characters of a token that others in the network may try to guess."""


@dataclass(frozen=True, slots=True, repr=False)
class ServerSettings:
    """Settings of a server; they hold a secret, and are not in their own `repr`.

    Attributes:
        host: address to listen on. Beyond loopback only with a token.
        port: 0: any that is free.
        token: what clients have to send; None: nothing.
        origins: web pages that may ask, as "https://chat.example"; by default none.
        hosts: names by which the server may be called, besides its own addresses.
        certificate: file of a TLS certificate; None: no encryption.
        key: file of its private key; None: it is in the same file.
        max_body_bytes: of a request's body.
        max_waiting: requests that may wait for their turn.
        max_connections: at the same time.
        body_timeout: in which a request has to arrive.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    certificate: Path | None = None
    key: Path | None = None
    max_body_bytes: int = 4 * 2**20
    max_waiting: int = 8
    max_connections: int = 64
    body_timeout: float = 30.0

    @property
    def local(self) -> bool:
        """Tell whether only programs on this computer reach it."""
        return is_loopback(self.host)

    @property
    def scheme(self) -> str:
        """Return the first part of its address."""
        return "http" if self.certificate is None else "https"

    def check(self) -> None:
        """Check what must not be.

        Raises:
            UserFixable: it would be open to anybody in the network, or a file is missing.
        """
        if self.token is None:
            if not self.local:
                raise UserFixable(
                    tr("Without an access token, anybody in the network could use the model."),
                    tr("Use an access token, or listen on 127.0.0.1 only."),
                )
        elif not is_token(self.token):
            raise UserFixable(
                tr("This cannot be an access token."),
                tr("Use up to 400 letters, digits and signs without blanks."),
            )
        elif not self.local and len(self.token) < _SHORTEST_BEYOND:
            raise UserFixable(
                tr("This access token is too short for a server that others in the network reach."),
                tr("Use 16 characters or more, or leave the access token to Duotail."),
            )
        for file in (self.certificate, self.key):
            if file is not None and not file.is_file():
                raise UserFixable(
                    tr("There is no file “{name}”.").format(name=file.name),
                    tr("Name the files of a certificate and its private key."),
                )

    def allowed_hosts(self) -> frozenset[str]:
        """Return the names by which clients may call the server, in lower case."""
        own = {each.lower() for each in self.hosts} | LOOPBACK_NAMES
        if self.local:
            return frozenset(own)
        name = socket.gethostname().lower()
        return frozenset(own | {self.host.lower(), name, f"{name}.local"} | _addresses())


def is_loopback(host: str) -> bool:
    """Return whether an address is this computer's alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_token(text: str) -> bool:
    """Return whether a text can be sent in a header."""
    return text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= _LONGEST


def kept_token() -> tuple[str, bool]:
    """Return the token of this computer, made the first time, and whether the keyring holds it.

    Without a keyring there is a new one at each start. A keyring may ask the user to unlock it.
    """
    kept = kept_secret(_SECRET)
    if kept is not None and is_token(kept):
        return kept, True
    return new_token()


def new_token() -> tuple[str, bool]:
    """Make another token in place of the kept one; returned as by `kept_token`."""
    token = secrets.token_urlsafe(32)
    return token, keep_secret(_SECRET, token)


def network_address() -> str:
    """Return this computer's address in its network; 127.0.0.1 where it is in none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an example's address; nothing is sent
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


def _addresses() -> set[str]:
    """Return the addresses of this computer's network cards."""
    families = (socket.AF_INET, socket.AF_INET6)
    return {
        address.address.partition("%")[0].lower()
        for card in psutil.net_if_addrs().values()
        for address in card
        if address.family in families
    }
