"""Tells `duotail models ps` which model the window holds, and where it is served."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.engine_link.background import BackgroundQueue
from app.engine_link.bridge import EngineBridge
from app.serving.model_server import ModelServer

if TYPE_CHECKING:
    from engine.server.running import Announcement

_NOTHING = "", ""


class WindowAnnouncement(QObject):
    """Keeps this process's file up to date, beside the window.

    Args:
        data: the user's data folder.
        bridge: to the engine.
        server: of the window.
        parent: the owner.
    """

    def __init__(
        self, data: Path, bridge: EngineBridge, server: ModelServer, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._data, self._bridge, self._server = data, bridge, server
        self._told = _NOTHING
        self._announcement: Announcement | None = None
        self._closed, self._one_at_a_time = False, threading.Lock()
        self._queue = BackgroundQueue(self)
        bridge.status_changed.connect(self._follow)
        server.changed.connect(self._follow)

    def _follow(self) -> None:
        status, opened = self._bridge.status, self._server.opened
        model = "" if status.loaded is None else status.model_name
        told = (model, "" if opened is None else opened.url) if model else _NOTHING
        if told != self._told:
            self._told = told
            self._queue.do(partial(self._tell, *told))

    def _tell(self, model: str, url: str) -> None:
        from engine.server.running import Announcement  # not for the first picture

        with self._one_at_a_time:
            if self._announcement is None:
                self._announcement = Announcement(self._data)
            if not self._data.is_dir():  # one that was taken away is not made anew
                return
            if model and not self._closed:
                self._announcement.tell(url, model)
            else:
                self._announcement.withdraw()

    def close(self) -> None:
        """Be found no more."""
        self._closed = True
        if self._told != _NOTHING:
            self._tell(*_NOTHING)
