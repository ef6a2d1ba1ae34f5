"""A process that fetches one model, seen from where it was started."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine import language
from engine.hub.download.rules import Rules
from engine.hub.download.worker import run
from engine.hub.messages import Answer, Fetch

_PROCESSES = get_context("spawn")
"""Threads start them, beside a window: nothing may be forked."""
_END_S = 10.0


class Fetching:
    """Started at once; it ends with its last message, when it is killed, or with this process.

    Args:
        asked: what to fetch.
        rules: how patient to be.
        notes: where files that were right are noted.
    """

    def __init__(self, asked: Fetch, rules: Rules, notes: Path | None = None) -> None:
        self.key = asked.job.key
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = _PROCESSES.Pipe()
        self._process = _PROCESSES.Process(
            target=run,
            args=(theirs, rules, notes, language.in_use()),
            name="duotail-download",
            daemon=True,
        )
        self._process.start()
        theirs.close()  # else nobody would notice that the process has ended
        with contextlib.suppress(OSError):  # it has ended already: `receive` says so
            self.pipe.send(asked)

    @property
    def pid(self) -> int | None:
        """Of the process."""
        return self._process.pid

    def receive(self) -> Answer | None:
        """Its next message; waits for it. None: it has ended."""
        try:
            answer: Answer = self.pipe.recv()
        except (EOFError, OSError):
            return None
        return answer

    def answers(self) -> Iterator[Answer]:
        """All its messages, to the last one; then it has ended."""
        while (answer := self.receive()) is not None:
            yield answer
        self.close()

    def kill(self) -> None:
        """What is on the disk stays there."""
        self._process.kill()

    def close(self) -> None:
        """Wait for its end; the pipe is of no use any more."""
        self._process.kill()
        self._process.join(_END_S)
        self.pipe.close()
        with contextlib.suppress(ValueError):  # the system takes its time to end it
            self._process.close()
