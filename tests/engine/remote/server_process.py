"""Servers in processes of their own, and the commands for their models."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from engine.commands import Connect
from engine.errors import UserFixable
from engine.remote.address import ServerAddress
from engine.remote.client import ServerClient
from engine.remote.servers import RemoteServer

PATIENCE_S = 240.0
_ROOT = Path(__file__).parents[3]


@contextmanager
def process(*command: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A child that is killed at the end, if it still runs."""
    paths = os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ | {"PYTHONPATH": paths} | environment,
        cwd=_ROOT,
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait(PATIENCE_S)
        if child.stdout is not None:
            child.stdout.close()


def place(url: str, key: str | None = None) -> Connect:
    """The command for the first model of a server, by its own list."""
    address = ServerAddress.typed(url)
    catalogue = asyncio.run(ServerClient(address, key).catalogue())
    return RemoteServer(address.url).told(catalogue).connect(catalogue.models[0])


def ready(url: str, child: subprocess.Popen[str]) -> Connect:
    """The same, as soon as the server answers."""
    end = time.monotonic() + PATIENCE_S
    while child.poll() is None and time.monotonic() < end:
        with suppress(UserFixable):
            return place(url)
        time.sleep(0.2)
    raise AssertionError("the server did not start")
