"""Processes for what strangers wrote: templates, tokenizers and documents, within limits.

Such data may make the code that reads it run forever, take all memory or crash. A process that
takes too much is killed. Questions and answers are JSON: nothing is unpickled.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import IO, cast

import psutil

from engine.machine.sandbox_process import Limit, SandboxLimits, receive, send

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from engine.machine.sandbox_process import serve; serve()"
)
_POLL_S = 0.05
_START_S = 60.0
_END_S = 5.0


class LimitExceeded(Exception):
    """The process was stopped, or has crashed, while it answered.

    Attributes:
        limit: which limit that was.
    """

    def __init__(self, limit: Limit) -> None:
        super().__init__(limit.value)
        self.limit = limit


class QuestionFailed(Exception):
    """The function that was asked for has raised; type and message of its error."""


class Sandbox:
    """Calls functions in a process of its own. Any thread may ask; one question at a time.

    The process starts with the first question and is kept for the next. A question that breaks a
    limit ends it, and the next one starts another.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def ask(
        self,
        function: Callable[..., object],
        *args: object,
        limits: SandboxLimits,
        stopped: Callable[[], bool] = lambda: False,
    ) -> object:
        """Return `function(*args)`; the process imports the function by its name.

        Args:
            function: takes and returns what JSON carries.
            args: its arguments.
            limits: the most it may take.
            stopped: asked now and then; true ends the question.

        Raises:
            LimitExceeded: it took too much, was stopped or crashed the process.
            QuestionFailed: it raised an error.
        """
        asked = function.__module__, function.__name__, args, asdict(limits)
        question = json.dumps(asked).encode()
        with self._lock:
            if self._running is None or not self._running.alive:
                self._end()
                self._running = _Running()
            try:
                said = self._running.ask(question, limits, stopped)
            except LimitExceeded:
                self._end()
                raise
        answer = json.loads(said)
        if "limit" in answer:
            raise LimitExceeded(Limit(answer["limit"]))
        if "error" in answer:
            raise QuestionFailed(answer["error"])
        return answer["value"]

    def close(self) -> None:
        """End the process; the next question starts another one."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running = None


class _Running:
    """The process while it lives."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this Python, our own code
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        pipes = self._process.stdin, self._process.stdout
        self._questions, self._replies = cast("tuple[IO[bytes], IO[bytes]]", pipes)
        self._watched: psutil.Process | None = None
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="duotail-sandbox", daemon=True).start()

    @property
    def alive(self) -> bool:
        """True while it can be asked."""
        return self._process.poll() is None

    def ask(self, question: bytes, limits: SandboxLimits, stopped: Callable[[], bool]) -> bytes:
        """Return the answer as JSON.

        Raises:
            LimitExceeded: it was not given within the limits.
        """
        watched = self._watched = self._watched or self._ready(stopped)
        end = time.monotonic() + limits.patience * limits.seconds
        spent, held = _used(watched)

        def broken() -> Limit | None:
            seconds, nbytes = _used(watched)
            if seconds - spent > limits.seconds or time.monotonic() > end:
                return Limit.TIME
            most = limits.nbytes
            return Limit.MEMORY if most is not None and nbytes - held > most else None

        try:
            send(self._questions, question)
        except OSError:
            raise LimitExceeded(Limit.CRASH) from None
        return self._next(stopped, broken)

    def _ready(self, stopped: Callable[[], bool]) -> psutil.Process:
        """The process that answers; on Windows the one that was started only launches it."""
        end = time.monotonic() + _START_S
        ready = self._next(stopped, lambda: Limit.CRASH if time.monotonic() > end else None)
        try:
            return psutil.Process(int(ready))
        except psutil.Error:
            raise LimitExceeded(Limit.CRASH) from None

    def _next(self, stopped: Callable[[], bool], broken: Callable[[], Limit | None]) -> bytes:
        """Wait for the next message as long as it is wanted and no limit is broken."""
        while True:
            if stopped():
                raise LimitExceeded(Limit.STOPPED)
            with contextlib.suppress(queue.Empty):
                answer = self._answers.get(timeout=_POLL_S)
                if answer is None:
                    raise LimitExceeded(Limit.CRASH)
                return answer
            if limit := broken():
                raise LimitExceeded(limit)

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(psutil.Error):
            if self._watched is not None:
                self._watched.kill()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that waits for a device stays
            self._process.wait(timeout=_END_S)
        for stream in (self._questions, self._replies):
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (answer := receive(self._replies)) is not None:
                self._answers.put(answer)
        self._answers.put(None)


def _used(process: psutil.Process) -> tuple[float, int]:
    """Seconds of CPU time and bytes of memory of a process; none once it has ended."""
    try:
        times = process.cpu_times()
        return float(times.user + times.system), int(process.memory_info().rss)
    except psutil.Error:
        return 0.0, 0


SANDBOX = Sandbox()
"""The one that is kept for templates and tokenizers."""
atexit.register(SANDBOX.close)
