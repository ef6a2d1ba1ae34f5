"""Servers that the user has added, and the file they are kept in.

Keys are not in it: they are in the system's keyring.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, replace
from pathlib import Path

from engine.commands import Connect, ServerKind
from engine.kept_files import write_json
from engine.machine.keyring import forget_secret, keep_secret, kept_secret
from engine.remote.address import ServerAddress
from engine.remote.catalogue import Catalogue, RemoteModel
from engine.typed_json import decoded, encoded

VERSION = 1
_MOST_BYTES = 1 << 20
_MOST_SERVERS = 50

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RemoteServer:
    """A server that was added, with what its last test told.

    Attributes:
        url: its address, as in `ServerAddress.url`.
        kind: program that it is.
        models: those that it had.
        agreed: whether the user knows that what they write goes there.
    """

    url: str
    kind: ServerKind = ServerKind.OTHER
    models: tuple[RemoteModel, ...] = ()
    agreed: bool = False

    @property
    def address(self) -> ServerAddress:
        """Return its address."""
        return ServerAddress(self.url)

    @property
    def needs_consent(self) -> bool:
        """True if the user has to be told first that what they write leaves this computer."""
        return not (self.agreed or self.address.local)

    def told(self, catalogue: Catalogue) -> RemoteServer:
        """Return it with what a test told."""
        return replace(self, kind=catalogue.kind, models=catalogue.models)

    def connect(self, model: RemoteModel) -> Connect:
        """Return the command that has one of its models answer."""
        return Connect(self.url, model.name, self.kind, model.context)


@dataclass(frozen=True, slots=True)
class KeptServers:
    """Content of the file.

    Attributes:
        servers: in the order in which they were added.
        url, model: the model that answered last, if it was one of theirs; else "".
    """

    version: int = VERSION
    servers: tuple[RemoteServer, ...] = ()
    url: str = ""
    model: str = ""

    def server(self, url: str) -> RemoteServer | None:
        """Return the server of this address."""
        return next((each for each in self.servers if each.url == url), None)

    def having(self, server: RemoteServer) -> KeptServers:
        """Return the content with this server, in the place of one of the same address."""
        if self.server(server.url) is None:
            return replace(self, servers=(*self.servers, server)[-_MOST_SERVERS:])
        servers = (server if each.url == server.url else each for each in self.servers)
        return replace(self, servers=tuple(servers))

    def without(self, url: str) -> KeptServers:
        """Return the content without a server."""
        rest = tuple(each for each in self.servers if each.url != url)
        left = replace(self, servers=rest)
        return replace(left, url="", model="") if self.url == url else left

    @property
    def last(self) -> Connect | None:
        """Return the command that has the model answer that did last; None: it was one here."""
        server = self.server(self.url)
        if server is None or server.needs_consent:
            return None
        model = next((each for each in server.models if each.name == self.model), None)
        return None if model is None else server.connect(model)


def read(path: Path) -> KeptServers:
    """Return what a file holds; nothing where it is missing, damaged or another version's."""
    try:
        with path.open("rb") as stream:
            kept = decoded(KeptServers, json.loads(stream.read(_MOST_BYTES)), "file")
    except FileNotFoundError:
        return KeptServers()
    except (OSError, ValueError, RecursionError) as error:
        _log.warning("the list of servers cannot be read and begins anew: %s", type(error).__name__)
        return KeptServers()
    return kept if kept.version == VERSION else KeptServers()


def write(path: Path, kept: KeptServers) -> None:
    """Replace what a file holds.

    Raises:
        OSError: it cannot be written.
    """
    write_json(path, encoded(kept))


class ServerKeys:
    """Keys of servers: in the system's keyring, or until the program ends.

    A keyring may ask the user to unlock it: not to be used in a window's thread.
    """

    def __init__(self) -> None:
        self._here: dict[str, str] = {}

    def key(self, url: str) -> str | None:
        """Return the key of a server; None: it has none."""
        return self._here.get(url) or kept_secret(_name(url)) or None

    def keep(self, url: str, key: str) -> bool:
        """Keep a key, or forget it where it is empty; whether the keyring has taken it."""
        self._here.pop(url, None)
        if not key:
            forget_secret(_name(url))
            return True
        kept = keep_secret(_name(url), key)
        if not kept:
            self._here[url] = key
        return kept


def _name(url: str) -> str:
    return f"server {url}"
