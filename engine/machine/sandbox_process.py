"""The sandbox's own process: it answers questions within limits until nobody is there to ask."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from typing import IO

_HEADER = 8
_LARGEST = 1 << 30
"""Longest message, in bytes."""


class Limit(StrEnum):
    """Reasons to end a question before its answer."""

    TIME = "time"
    MEMORY = "memory"
    LENGTH = "length"
    CRASH = "crash"
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """The most that one question may take.

    Attributes:
        seconds: of CPU time.
        nbytes: of memory beyond what the process holds when it begins; None: no limit, as graphics
            drivers map more than there is.
        characters: of the answer, as JSON.
        patience: wall time allowed per CPU time, as a busy machine is slow.
    """

    seconds: float = 2.0
    nbytes: int | None = 256 << 20
    characters: int = 32 << 20
    patience: int = 15


def serve() -> None:
    """Tell the process's id, then answer questions."""
    questions, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing printed is taken for an answer
    send(answers, str(os.getpid()).encode())
    while (question := receive(questions)) is not None:
        send(answers, _answer(question))


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message, its length first."""
    stream.write(len(message).to_bytes(_HEADER, "little") + message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Return the next message; None at the end."""
    header = stream.read(_HEADER)
    if len(header) < _HEADER:
        return None
    nbytes = int.from_bytes(header, "little")
    return stream.read(nbytes) if nbytes <= _LARGEST else None


def _answer(question: bytes) -> bytes:
    try:
        module, name, args, told = json.loads(question)
        limits = SandboxLimits(**told)
        _keep_within(limits)
        answer = json.dumps({"value": getattr(import_module(module), name)(*args)})
    except MemoryError:
        answer = json.dumps({"limit": Limit.MEMORY})
    except BaseException as error:  # noqa: BLE001 - a stranger's program may fail in any way
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
    most = {resource.RLIMIT_CPU: seconds}
    if limits.nbytes is not None:
        most[resource.RLIMIT_AS] = held + limits.nbytes
    for which, count in most.items():
        resource.setrlimit(which, (count, resource.getrlimit(which)[1]))
