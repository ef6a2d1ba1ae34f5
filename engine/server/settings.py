"""How a server is reached, by whom, and how much it takes."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from engine.errors import UserFixable
from engine.language import tr
from engine.machine.keyring import keep_secret, kept_secret

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
TOKEN_VARIABLE = "DUOTAIL_TOKEN"
"""Environment variable with the access token, for starts without a person."""
_TOKEN_FILE = "server_token"
"""File in the data folder with the token, where there is no keyring; for its owner only."""
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
        aliases: further names by which requests may mean the loaded model.
        any_name: whether names that nobody knows mean the loaded model, too.
    """

    host: str = "127.0.0.1"
    port: int = 0
    token: str | None = None
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    certificate: Path | None = None
    key: Path | None = None
    max_body_bytes: int = 4 * 2**20
    max_waiting: int = 256
    max_connections: int = 512
    body_timeout: float = 30.0
    aliases: frozenset[str] = frozenset()
    any_name: bool = False

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
        if self.key is not None and self.certificate is None:
            raise UserFixable(
                tr("A private key alone does not encrypt."),
                tr("Name the file of its certificate, too."),
            )
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
        own = {_without_port(each) for each in self.hosts} | LOOPBACK_NAMES
        if self.local:
            return frozenset(own)
        name = socket.gethostname().lower()
        return frozenset(own | {self.host.lower(), name, f"{name}.local"} | _addresses())


def _without_port(host: str) -> str:
    """Return a host's name, in lower case; some write its port with it."""
    name, colon, port = host.strip().lower().rpartition(":")
    return name if colon and port.isdigit() and ":" not in name else host.strip().lower()


def is_loopback(host: str) -> bool:
    """Return whether an address is this computer's alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_token(text: str) -> bool:
    """Return whether a text can be sent in a header."""
    return text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= _LONGEST


def kept_token(data: Path | None = None) -> tuple[str, bool]:
    """Return the token of this computer, made the first time, and whether it is kept.

    A keyring may ask the user to unlock it.

    Args:
        data: folder of a file that holds it where no keyring does; None: it is then new each time.
    """
    kept = kept_secret(_SECRET)
    if kept is None and data is not None:
        with suppress(OSError, UnicodeDecodeError):
            kept = (data / _TOKEN_FILE).read_text("utf-8").strip()
    if kept is not None and is_token(kept):
        return kept, True
    return new_token(data)


def new_token(data: Path | None = None) -> tuple[str, bool]:
    """Make another token in place of the kept one; arguments and result as of `kept_token`."""
    token = secrets.token_urlsafe(32)
    return token, keep_secret(_SECRET, token) or (data is not None and _in_file(data, token))


def token_in(file: Path) -> str:
    """Return the token that a file holds.

    Raises:
        UserFixable: it cannot be read.
    """
    try:
        return file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UserFixable(
            tr("The file “{name}” cannot be read.").format(name=file.name),
            tr("Name a text file in UTF-8."),
            str(error),
        ) from error


def _in_file(data: Path, token: str) -> bool:
    """Write a token for its owner's eyes; return whether that went well."""
    file = data / _TOKEN_FILE
    try:
        data.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as out:
            out.write(token)
    except OSError:
        return False
    return True


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
