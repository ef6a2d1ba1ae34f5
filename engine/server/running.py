"""Who holds a model on this computer, by a file for each process in the user's data folder.

The files are the user's own, and name nothing that a list of processes and ports would not: no
access token. Nobody is asked, so nothing has to listen for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import time

import psutil

from engine.kept_files import KeptFiles

_MOST = 64


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A process of this user's that holds a model.

    Attributes:
        pid: of the process.
        url: its address, for clients on this computer; empty: a window that serves nobody.
        model: that it holds, or has begun with.
        since: Unix time at which it was ready.
    """

    pid: int
    url: str
    model: str
    since: float


class Announcement:
    """Has others find this process; in a folder that cannot be written to nobody does.

    Args:
        data: the user's data folder.
    """

    def __init__(self, data: Path) -> None:
        self._files, self._told = _files(data), RunningServer(os.getpid(), "", "", 0.0)

    def tell(self, url: str, model: str) -> None:
        """Tell of a model, in place of what was told; `url` as in `RunningServer`."""
        same = model == self._told.model
        since = self._told.since if same else time()
        self._told = replace(self._told, url=url, model=model, since=since)
        self._files.keep(self._told)

    def withdraw(self) -> None:
        """Be found no more."""
        self._told = replace(self._told, model="")
        self._files.forget(self._told)


@contextmanager
def announced(data: Path, url: str, model: str) -> Iterator[None]:
    """Context in which others find this process's server.

    Args:
        data: the user's data folder.
        url: its address.
        model: that it has.
    """
    announcement = Announcement(data)
    announcement.tell(url, model)
    try:
        yield
    finally:
        announcement.withdraw()


def running(data: Path) -> list[RunningServer]:
    """Return those that run, the oldest first; files of others that were killed go."""
    files, found = _files(data), []
    for server in files.all():
        if _runs(server):
            found.append(server)
        else:
            files.forget(server)
    return sorted(found, key=lambda server: server.since)


def _files(data: Path) -> KeptFiles[RunningServer]:
    return KeptFiles(RunningServer, data / "servers", lambda server: str(server.pid), most=_MOST)


def _runs(server: RunningServer) -> bool:
    """Tell whether a process is the one that wrote its file: numbers are given again."""
    try:
        return psutil.Process(server.pid).create_time() <= server.since
    except psutil.Error:
        return False
