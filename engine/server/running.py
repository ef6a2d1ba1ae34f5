"""Servers that run on this computer, by a file each in the user's data folder."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import time

import psutil

_FOLDER = "servers"


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
    server = RunningServer(os.getpid(), url, model, time())
    file = data / _FOLDER / f"{server.pid}.json"
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(server)), "utf-8")
    try:
        yield
    finally:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def running(data: Path) -> list[RunningServer]:
    """Return the servers that run, the oldest first; files of others that were killed go."""
    found = []
    for file in sorted((data / _FOLDER).glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            server = RunningServer(**json.loads(file.read_text("utf-8")))
            if _runs(server):
                found.append(server)
            else:
                file.unlink()
    return sorted(found, key=lambda server: server.since)


def _runs(server: RunningServer) -> bool:
    """Tell whether a process is the one that wrote its file: numbers are given again."""
    try:
        return psutil.Process(server.pid).create_time() <= server.since
    except psutil.Error:
        return False
