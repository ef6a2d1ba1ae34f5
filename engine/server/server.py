"""The web server, on a thread and an event loop of its own."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable

import uvicorn

from engine.encoder.encoder import Encoder
from engine.errors import UserFixable
from engine.language import tr
from engine.server.application import ServerApplication
from engine.server.connection import ClientConnection
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus
from engine.server.models import Catalogue
from engine.server.settings import ServerSettings, network_address

_START_S = 30.0
_GRACE_S = 1
"""Seconds that answers have to end when the server does."""


class Server:
    """Listens from its making until `close`.

    Args:
        dispatcher: the door to the engine.
        settings: how it is reached, and by whom.
        on_change: takes the status of a request at each change, in the server's thread; must be
            quick.
        catalogue: models that requests may load; None: none.
        encoder: embeds; None: the loaded model does.

    Raises:
        UserFixable: the settings do not allow it, or nothing can listen there.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        settings: ServerSettings,
        on_change: Callable[[RequestStatus], None] = lambda _: None,
        catalogue: Catalogue | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        settings.check()
        # Its own lines would name paths, and warn of every malformed request.
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        self._settings = settings
        application = ServerApplication(dispatcher, settings, on_change, catalogue, encoder)
        self._server = _Uvicorn(_config(application, settings), application)
        connections = self._server.server_state.connections
        application.is_crowded = lambda: len(connections) > settings.max_connections
        self._socket = _listening(settings.host, settings.port)
        self.port: int = self._socket.getsockname()[1]
        """The port it listens on."""
        self._thread = threading.Thread(target=self._run, name="server", daemon=True)
        self._thread.start()
        self._server.ready.wait(_START_S)

    @property
    def url(self) -> str:
        """The address for clients on this computer, up to and including /v1."""
        return self._url("127.0.0.1")

    @property
    def network_url(self) -> str:
        """The address for clients in the network."""
        return self._url(network_address())

    def _url(self, if_everywhere: str) -> str:
        host = self._settings.host
        if host in ("0.0.0.0", "::"):  # noqa: S104 - compared with
            host = if_everywhere
        named = f"[{host}]" if ":" in host else host
        return f"{self._settings.scheme}://{named}:{self.port}/v1"

    def close(self, timeout: float = 5.0) -> None:
        """End all answers and stop listening."""
        self._server.should_exit = True
        self._thread.join(timeout)

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))


class _Uvicorn(uvicorn.Server):
    """Tells when it listens, and ends what is being answered when it ends."""

    def __init__(self, config: uvicorn.Config, application: ServerApplication) -> None:
        super().__init__(config)
        self._application = application
        self.ready = threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        self.ready.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening."""
        self._application.close()
        await super().shutdown(sockets)


def _config(application: ServerApplication, settings: ServerSettings) -> uvicorn.Config:
    config = uvicorn.Config(
        application.asgi,
        http=ClientConnection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,  # an address that a client claims is none
        server_header=False,
        timeout_keep_alive=75,  # longer than clients keep theirs: none is closed as it is used
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=64 * 1024,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
    try:
        config.load()
    except (ssl.SSLError, OSError) as error:
        raise UserFixable(
            tr("The certificate or its private key cannot be used."),
            tr("Name files in PEM format that belong together."),
            type(error).__name__,
        ) from error
    return config


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there.

    Raises:
        UserFixable: nothing can.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        made = socket.socket(family, kind)
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from error
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):  # Windows: nobody else may take the port over
            made.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen()
    except (OSError, OverflowError) as error:
        made.close()
        raise _cannot_listen(host, port, error) from error
    return made


def _cannot_listen(host: str, port: int, error: Exception) -> UserFixable:
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return UserFixable(
            tr("Another program on this computer already uses port {port}.").format(port=port),
            tr("Choose another port."),
            str(error),
        )
    return UserFixable(
        tr("Duotail cannot listen on {host}, port {port}.").format(host=host, port=port),
        tr("Choose another port, or an address of this computer."),
        str(error),
    )
