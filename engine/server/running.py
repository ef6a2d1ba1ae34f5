"""Servers that run on this computer, by a file each in the user's data folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time

import psutil

from engine.kept_files import KeptFiles

_MOST = 64


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server of this user's.

    Attributes:
        pid: of its process.
        url: its address, for clients on this computer.
        model: that it has begun with.
        since: Unix time at which it was ready.
    """

    pid: int
    url: str
    model: str
    since: float


@contextmanager
def announced(data: Path, url: str, model: str) -> Iterator[None]:
    """Context in which others find this process's server; a folder that cannot be written is none.

    Args:
        data: the user's data folder.
        url: its address.
        model: that it has.
    """
    files, server = _files(data), RunningServer(os.getpid(), url, model, time())
    files.keep(server)
    try:
        yield
    finally:
        files.forget(server)


def running(data: Path) -> list[RunningServer]:
    """Return the servers that run, the oldest first; files of others that were killed go."""
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
