"""A process for what strangers wrote: chat templates and tokenizers run in it, within limits.

Such programs may run forever, take all memory or crash. The process starts with the first question
and is kept for the next. It is killed when a question uses too much, and the next question starts
another one. Questions and answers are JSON, and answers have a bounded length.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import import_module
from typing import IO, cast

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from engine.model.text.sandbox_process import serve; serve()"
)
_POLL_S = 0.05
_PATIENCE = 15
"""Wall time allowed per CPU time: a busy machine may be slow, and a waiting process uses none."""
_HEADER = 8
_LARGEST = 1 << 30
"""Longest message, in bytes."""


class Limit(StrEnum):
    """SandboxLimits that a question may exceed."""

    TIME = "time"
    MEMORY = "memory"
    LENGTH = "length"
    CRASH = "crash"


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


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """SandboxLimits of one question.

    Attributes:
        seconds: of CPU time.
        nbytes: of memory beyond what the process holds when it begins.
        characters: of the answer, as JSON.
    """

    seconds: float = 2.0
    nbytes: int = 256 << 20
    characters: int = 32 << 20


class SandboxProcess:
    """Calls functions in a process of its own. Any thread may ask; one question at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None
        atexit.register(self.close)

    def ask(self, function: Callable[..., object], *args: object, limits: SandboxLimits) -> object:
        """Return `function(*args)`; the process imports the function by its name.

        Arguments and result are what JSON carries.

        Raises:
            LimitExceeded: it took too much, or crashed the process.
            QuestionFailed: it raised an error.
        """
        asked = function.__module__, function.__name__, args, asdict(limits)
        question = json.dumps(asked).encode()
        with self._lock:
            if self._running is None or not self._running.alive:
                self._running = _Running()
            try:
                said = self._running.ask(question, limits)
            except LimitExceeded:
                self._running.kill()
                self._running = None
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
            if self._running is not None:
                self._running.kill()
                self._running = None


class _Running:
    """The process while it lives."""

    def __init__(self) -> None:
        import psutil  # the process itself imports this module, and does without

        self._process = subprocess.Popen(  # noqa: S603 - this Python, our own code
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        pipes = self._process.stdin, self._process.stdout
        self._questions, self._replies = cast("tuple[IO[bytes], IO[bytes]]", pipes)
        self._watched = psutil.Process(self._process.pid)
        self._answers: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="duotail-sandbox", daemon=True).start()
        self._answers.get(timeout=60)  # it is ready, or has ended

    @property
    def alive(self) -> bool:
        """True while it can be asked."""
        return self._process.poll() is None

    def ask(self, question: bytes, limits: SandboxLimits) -> bytes:
        """Return the answer as JSON.

        Raises:
            LimitExceeded: it was not given within the limits.
        """
        begun, spent, held = time.monotonic(), self._seconds(), self._nbytes()
        try:
            _send(self._questions, question)
        except OSError:
            raise LimitExceeded(Limit.CRASH) from None
        while True:
            with contextlib.suppress(queue.Empty):
                answer = self._answers.get(timeout=_POLL_S)
                if answer is None:
                    raise LimitExceeded(Limit.CRASH)
                return answer
            waited = time.monotonic() - begun
            if self._seconds() - spent > limits.seconds or waited > _PATIENCE * limits.seconds:
                raise LimitExceeded(Limit.TIME)
            if self._nbytes() - held > limits.nbytes:
                raise LimitExceeded(Limit.MEMORY)

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait()
        for stream in (self._questions, self._replies):
            with contextlib.suppress(OSError):
                stream.close()

    def _read(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (answer := _receive(self._replies)) is not None:
                self._answers.put(answer)
        self._answers.put(None)

    def _seconds(self) -> float:
        import psutil

        try:
            times = self._watched.cpu_times()
        except psutil.Error:
            return 0.0
        return float(times.user + times.system)

    def _nbytes(self) -> int:
        import psutil

        try:
            return int(self._watched.memory_info().rss)
        except psutil.Error:
            return 0


def serve() -> None:
    """Answer questions until nobody is there to ask. Runs in the process itself."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing printed is taken for an answer
    _send(answers, b"ready")
    while (question := _receive(questions)) is not None:
        _send(answers, _answer(question))


def _answer(question: bytes) -> bytes:
    try:
        module, name, args, told = json.loads(question)
        limits = SandboxLimits(**told)
        _keep_within(limits)
        answer = json.dumps({"value": getattr(import_module(module), name)(*args)})
    except MemoryError:
        answer = json.dumps({"limit": Limit.MEMORY})
    except Exception as error:  # noqa: BLE001 - a stranger's program may fail in any way
        answer = json.dumps({"error": f"{type(error).__name__}: {error}"[:500]})
    else:
        if len(answer) > limits.characters:
            answer = json.dumps({"limit": Limit.LENGTH})
    return answer.encode()


def _keep_within(limits: SandboxLimits) -> None:
    """Let the system enforce the limits where it can, even when the asking program has died."""
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as sizes:
            held = int(sizes.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):  # Windows, macOS: the program that asks looks now and then
        return
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = int(usage.ru_utime + usage.ru_stime + limits.seconds) + 2
    for which, most in ((resource.RLIMIT_AS, held + limits.nbytes), (resource.RLIMIT_CPU, seconds)):
        resource.setrlimit(which, (most, resource.getrlimit(which)[1]))


def _send(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_HEADER, "little") + message)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes | None:
    header = stream.read(_HEADER)
    if len(header) < _HEADER:
        return None
    nbytes = int.from_bytes(header, "little")
    return stream.read(nbytes) if nbytes <= _LARGEST else None


SANDBOX = SandboxProcess()
"""The one of this program."""
