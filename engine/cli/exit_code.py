"""Ends of commands: exit codes, Ctrl-C, and errors in words and as JSON."""

from __future__ import annotations

import json
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType

from engine.cli.terminal_text import harmless
from engine.errors import OutOfMemory, UserFixable
from engine.events import WayOut
from engine.language import listed, tr
from engine.language.units import memory, tokens_per_s


class ExitCode(IntEnum):
    """Exit codes of every sub-command; the last two follow the shells' 128 + signal."""

    DONE = 0
    BAD_INPUT = 2
    """Bad usage, a model that cannot be used, a file that cannot be read."""
    ABSENT = 3
    """Something optional, such as a GPU, is missing."""
    INTERRUPTED = 130
    """Ctrl-C. `duotail chat` still prints what it had written by then."""
    READER_GONE = 141
    """The reader of the output has closed it (`duotail ... | head`)."""


@contextmanager
def on_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C call `stop` instead of raising; a second one raises as usual."""

    def handle(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def report(error: UserFixable, *, as_json: bool) -> None:
    """Write an error to standard error, and with `--json` also as an object to standard output."""
    lines = [str(error), *(_more(error) if isinstance(error, OutOfMemory) else ())]
    sys.stderr.write(harmless("\n".join(lines)) + "\n")
    if as_json:
        sys.stdout.write(json.dumps(_answer(error)) + "\n")


def _more(error: OutOfMemory) -> Iterator[str]:
    lacking = error.shortage
    if lacking is not None and lacking.holders:
        named = tr("{name} ({size})")
        yield tr("Other programs using much memory: {programs}.").format(
            programs=listed(
                each.name if each.nbytes is None
                else named.format(name=each.name, size=memory(each.nbytes))
                for each in lacking.holders
            )
        )  # fmt: skip
    if error.ways_out:
        yield tr("This would fit:")
    yield from (f"  {_line(way)}" for way in error.ways_out or ())


def _line(way: WayOut) -> str:
    options = shlex.join(way.load.options) or tr("without further options")
    if way.tokens_per_s is None:
        return tr("{words}: {options}").format(words=way.words, options=options)
    return tr("{words}, about {rate} tokens/s: {options}").format(
        words=way.words, rate=tokens_per_s(way.tokens_per_s, about=True), options=options
    )


def _answer(error: UserFixable) -> dict[str, object]:
    answer: dict[str, object] = {
        "finish_reason": "error",
        "error": error.cause,
        "remedy": error.remedy,
    }
    if error.said:
        answer["text"] = error.said
    if isinstance(error, OutOfMemory):
        lacking = error.shortage
        answer["missing"] = (
            None if lacking is None else {"device": lacking.device, "bytes": lacking.missing}
        )
        answer["ways_out"] = [
            {
                "words": way.words,
                "options": way.load.options,
                "tokens_per_s": way.tokens_per_s,
            }
            for way in error.ways_out or ()
        ]
    return answer
