"""What `duotail` tells the shell."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every sub-command; the last two follow the shells' 128 + signal."""

    DONE = 0
    BAD_INPUT = 2
    """Bad usage, a model that cannot be used, a file that cannot be read."""
    ABSENT = 3
    """Something optional, such as a graphics card, is not here."""
    INTERRUPTED = 130
    """Ctrl-C. `duotail chat` still prints what it had written by then."""
    READER_GONE = 141
    """Whoever read the output has closed it (`duotail ... | head`)."""
