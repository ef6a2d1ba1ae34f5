"""Standard input beside a prompt: what a pipe brings, and no endless wait for an idle one."""

from __future__ import annotations

import os
import sys
import threading

PATIENCE_S = 3.0
"""Seconds until something has to come from a pipe that nobody named."""
_CHUNK = 1 << 16


def at_terminal() -> bool:
    """Tell whether standard input is a terminal."""
    return sys.stdin is not None and sys.stdin.isatty()


def read_all() -> bytes:
    """Return all of it, however long that takes; nothing where it is closed."""
    try:
        return sys.stdin.buffer.read() if sys.stdin is not None else b""
    except OSError:  # it was closed before the program began
        return b""


def read_if_it_comes(patience: float = PATIENCE_S) -> bytes | None:
    """Return all of it if it begins or ends soon; None: nothing came.

    Programs that start others often leave them an open pipe into which nobody writes.
    """
    try:
        place = sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # it is closed, or no file
        return read_all()
    pieces: list[bytes] = []
    begun = threading.Event()

    def read() -> None:
        # Not through sys.stdin, whose lock a thread that waits would hold when the program ends.
        try:
            while piece := os.read(place, _CHUNK):
                pieces.append(piece)
                begun.set()
        except OSError:
            pass
        begun.set()

    reader = threading.Thread(target=read, name="standard-input", daemon=True)
    reader.start()
    if not begun.wait(patience):
        return None
    reader.join()
    return b"".join(pieces)
