"""What the person who waits for a set-up is told: problems, lines, and one line that moves."""

import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


class SetupProblem(Exception):
    """Something a person has to mend; the message is all they need to read."""


def say(text: str) -> None:
    """Write a line for the person who waits."""
    sys.stdout.write(("\r\033[K" if sys.stdout.isatty() else "") + text + "\n")
    sys.stdout.flush()


class Status:
    """What is being done side by side: a line that moves in a terminal, else one now and then."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._doing = {}  # type: dict[str, str]
        self._moves = sys.stdout.isatty()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tell, daemon=True)

        self._thread.start()

    def end(self) -> None:
        """Take the line away."""
        self._ended.set()
        self._thread.join()

    def update(self, what: str, doing: str) -> None:
        """Say what is being done; nothing: that is over."""
        self._doing[what] = doing

    def _tell(self) -> None:
        last = ""
        while not self._ended.wait(0.2 if self._moves else 10):
            words = ", ".join("{} {}".format(*each) for each in self._doing.items() if each[1])
            seconds = "{:3.0f} s  ".format(time.monotonic() - self._started)
            if self._moves:
                sys.stdout.write("\r\033[K" + (seconds + words)[:78])
                sys.stdout.flush()
            elif words != last:
                say(seconds + words)
            last = words
        if self._moves:
            sys.stdout.write("\r\033[K")
            sys.stdout.flush()
