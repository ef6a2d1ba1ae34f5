"""One window per data folder: a second start brings the first one forward and ends."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from PySide6.QtCore import QLockFile, QObject
from PySide6.QtNetwork import QLocalServer, QLocalSocket

from app.signals import TypedSignal
from app.version import version

_VERSION = 1
_TAKEN = QLockFile.LockError.LockFailedError
_LONGEST = 65_536
_CONNECT_MS = 1500
_ANSWER_MS = 10_000
"""A window that is just being opened on a busy machine answers late."""


class SingleInstance(QObject):
    """Holds the data folder's window lock while it lives.

    `started_again` comes when somebody started Duotail once more.
    """

    started_again = TypedSignal[Path | None]()
    """The file that was to be opened, if any."""
    other_started = TypedSignal[str]()
    """That was another version of Duotail, with this number; `started_again` comes first."""

    def __init__(self, lock_path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._folder = lock_path.parent
        self._lock = QLockFile(str(lock_path))
        # 0: only the death of the holder makes the lock stale, not its age.
        self._lock.setStaleLockTime(0)
        self._name = _server_name(lock_path)
        self._server: QLocalServer | None = None

    def claim(self) -> bool:
        """Become the one instance; False when another one is.

        A folder that is full or cannot be written to takes no lock: who only reads needs none.
        """
        writable = os.access(self._folder, os.W_OK)
        if not self._lock.tryLock(100) and self._lock.error() is _TAKEN and writable:
            return False
        QLocalServer.removeServer(self._name)  # left by an instance that was killed
        server = QLocalServer(self)
        server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        server.newConnection.connect(self._greet)
        server.listen(self._name)
        self._server = server
        return True

    def hand_over(self, file: Path | None = None) -> bool:
        """Ask the running instance to show itself and to open a file; whether it answered."""
        socket = QLocalSocket()
        socket.connectToServer(self._name)
        if not socket.waitForConnected(_CONNECT_MS):
            return False
        message: dict[str, object] = {"version": _VERSION, "command": "raise"}
        message["duotail"] = version()
        if file is not None:
            message["file"] = str(file.absolute())
        socket.write(json.dumps(message).encode() + b"\n")
        answered = socket.waitForReadyRead(_ANSWER_MS)
        socket.disconnectFromServer()
        return answered

    def release(self) -> None:
        """Let the next start be the one instance."""
        if self._server is not None:
            self._server.close()
        self._lock.unlock()

    def _greet(self) -> None:
        if self._server is None:
            return
        socket = self._server.nextPendingConnection()
        socket.readyRead.connect(lambda: self._read(socket))
        socket.disconnected.connect(socket.deleteLater)
        if socket.canReadLine():
            self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if not socket.canReadLine():
            return
        try:
            message = json.loads(bytes(socket.readLine(_LONGEST).data()))
        except ValueError:
            return
        if isinstance(message, dict) and message.get("command") == "raise":
            socket.write(b"ok\n")
            socket.flush()
            file = message.get("file")
            self.started_again.emit(Path(file) if isinstance(file, str) and file else None)
            other = message.get("duotail", version())
            if isinstance(other, str) and other != version():
                self.other_started.emit(other)


def _server_name(lock_path: Path) -> str:
    """A name of its own for every data folder, short enough for every system."""
    digest = hashlib.sha256(str(lock_path.absolute()).encode("utf-8", "surrogateescape"))
    return f"duotail-{digest.hexdigest()[:16]}"
