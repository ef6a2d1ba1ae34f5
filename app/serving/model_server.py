"""The server in the window's process, on a thread of its own, as the settings say."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.background import BackgroundQueue
from app.engine_link.bridge import EngineFactory, EngineLike
from app.serving.request_list import RequestList
from app.settings import Settings, SettingsStore
from app.signals import TypedSignal
from engine.errors import UserFixable
from engine.events import Event
from engine.server.dispatcher import Dispatcher
from engine.server.events import RequestStatus

if TYPE_CHECKING:
    from engine.encoder.encoder import Encoder
    from engine.server.models import Catalogue
    from engine.server.server import Server

_TAKE_MS = 200
_EVERYWHERE, _HERE = "0.0.0.0", "127.0.0.1"  # noqa: S104 - the user's explicit wish


class ServingState(Enum):
    """States of the server."""

    OFF = auto()
    STARTING = auto()
    ON = auto()


@dataclass(frozen=True, slots=True)
class ServerWish:
    """The settings that a server runs with."""

    port: int
    network: bool
    load: bool
    hosts: frozenset[str]
    origins: frozenset[str]
    embedding: str
    certificate: str
    key: str

    @staticmethod
    def of(settings: Settings) -> ServerWish | None:
        """Return what the settings say; None: nothing is served."""
        if not settings.serve:
            return None
        return ServerWish(
            settings.serve_port,
            settings.serve_network,
            settings.serve_load,
            frozenset(settings.serve_hosts.split()),
            frozenset(settings.serve_origins.split()),
            settings.serve_embedding,
            settings.serve_certificate,
            settings.serve_key,
        )


@dataclass(frozen=True, slots=True, repr=False)
class Opened:
    """A server that listens.

    Attributes:
        url: its address, for clients.
        token: what clients have to send.
        kept: whether the keyring holds the token.
    """

    url: str
    token: str
    kept: bool


class ModelServer(QObject):
    """Serves the window's model to other programs while the settings say so.

    Starting and stopping happen beside the window, one after the other. A server that cannot start
    switches its setting off.

    Args:
        settings: followed from `start` on.
        catalogue: makes what finds the models that requests may load; called beside the window.
    """

    changed = Signal()
    """State, address, access token or trouble."""
    failed = TypedSignal[UserFixable]()

    def __init__(
        self,
        settings: SettingsStore,
        catalogue: Callable[[], Catalogue],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.state = ServingState.OFF
        self.opened: Opened | None = None
        self.trouble: UserFixable | None = None
        """Why it did not start the last time."""
        self.requests = RequestList(self)
        self._dispatcher = Dispatcher()
        self._settings, self._catalogue = settings, catalogue
        self._queue = BackgroundQueue(self)
        self._wish: ServerWish | None = None
        self._server: Server | None = None  # touched by one call of the queue at a time
        self._token: tuple[str, bool] | None = None
        self._embedding: tuple[str, Encoder] | None = None
        self._closing = threading.Event()
        self._arrived: deque[RequestStatus] = deque()
        self._timer = QTimer(self, interval=_TAKE_MS)
        self._timer.timeout.connect(self.take)

    def between(self, factory: EngineFactory) -> EngineFactory:
        """Return a maker of engines whose events for the server's requests stay here."""

        def make(emit: Callable[[Event], None]) -> EngineLike:
            def sort(event: Event) -> None:
                if not self._dispatcher.take(event):
                    emit(event)

            engine = factory(sort)
            self._dispatcher.open(engine.submit)
            return engine

        return make

    def start(self) -> None:
        """Follow the settings from now on."""
        self._settings.changed.connect(self._follow)
        self._follow(self._settings.value)

    def renew_token(self) -> None:
        """Make another access token; the old one is worth nothing any more."""
        self._do(self._wish, renew=True)

    def take(self) -> None:
        """Hand out what has come in of requests."""
        self.requests.take(self._arrived.popleft() for _ in range(len(self._arrived)))

    def close(self) -> None:
        """Stop serving; what is being answered ends."""
        self._closing.set()
        self._timer.stop()
        self._stop()

    def _follow(self, settings: Settings) -> None:
        wish = ServerWish.of(settings)
        if wish != self._wish:
            self._do(wish)

    def _do(self, wish: ServerWish | None, *, renew: bool = False) -> None:
        self._wish, self.trouble = wish, None
        self._show(ServingState.OFF if wish is None else ServingState.STARTING)
        self._queue.do(
            lambda: self._restart(wish, renew=renew),
            lambda opened: self._restarted(wish, opened),
            self._refuse,
        )

    def _restart(self, wish: ServerWish | None, *, renew: bool) -> Opened | None:
        """Stop, and start again as wished unless that has changed meanwhile; beside the window."""
        from engine.server.server import Server
        from engine.server.settings import ServerSettings, kept_token, new_token

        self._stop()
        if renew:
            self._token = new_token()
        if wish is None or wish != self._wish or self._closing.is_set():
            return None
        token, kept = self._token = self._token or kept_token()
        settings = ServerSettings(
            host=_EVERYWHERE if wish.network else _HERE,
            port=wish.port,
            token=token,
            hosts=wish.hosts,
            origins=wish.origins,
            any_name=not wish.network,
            certificate=Path(wish.certificate).expanduser() if wish.certificate else None,
            key=Path(wish.key).expanduser() if wish.key else None,
        )
        catalogue = self._catalogue() if wish.load else None
        encoder = self._encoder(wish.embedding)
        self._server = Server(self._dispatcher, settings, self._arrived.append, catalogue, encoder)
        url = self._server.network_url if wish.network else self._server.url
        if self._closing.is_set():  # while it was being made
            self._stop()
        return Opened(url, token, kept)

    def _encoder(self, path: str) -> Encoder | None:
        """Return the model that embeds, read anew where another one is wished for."""
        if not path:
            self._embedding = None
            return None
        from engine.encoder.encoder import load_encoder

        if self._embedding is None or self._embedding[0] != path:
            self._embedding = None  # two at a time take memory
            self._embedding = path, load_encoder(Path(path).expanduser())
        return self._embedding[1]

    def _stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _restarted(self, wish: ServerWish | None, opened: Opened | None) -> None:
        if wish is None or wish != self._wish:  # another call is to come
            self._timer.stop()
            self.take()
        elif opened is not None:
            self._timer.start()
            self._show(ServingState.ON, opened)

    def _refuse(self, error: Exception) -> None:
        """Stay off; whatever is no matter of settings is an error of ours."""
        self._wish = None
        self._settings.change(serve=False)
        self._show(ServingState.OFF)
        if not isinstance(error, UserFixable):
            raise error
        self.trouble = error
        self.changed.emit()
        self.failed.emit(error)

    def _show(self, state: ServingState, opened: Opened | None = None) -> None:
        self.state, self.opened = state, opened
        self.changed.emit()
