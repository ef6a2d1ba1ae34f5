"""After a crash while a model was loading, the next start is careful.

A file with the process's number marks the time from the order to load until the engine answers.
Found at a start, with that process gone, it tells that the last start died in between: in native
code most likely, so the portable kernels are used.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from engine.language import later

_log = logging.getLogger(__name__)

SAFE_ISA = "portable"
_SAFE_MODE = "DUOTAIL_SAFE_MODE"
_ASKED, _IN_FORCE = "asked", "in force"

CRASHED = later(
    "Duotail crashed while loading the model. It now runs in safe mode, which is "
    "slower; the next start is normal again."
)
ASKED_FOR = later("Duotail runs in safe mode, which is slower. The next start is normal again.")
"""The message of safe mode by its cause, texts for `tr`."""


class LoadMark:
    """The file that marks a load in progress."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def left_behind(self) -> bool:
        """True if an earlier run died while it loaded a model: it is not merely still at it."""
        try:
            owner = int(self._path.read_text())
        except (OSError, ValueError):
            return self._path.exists()
        import psutil  # nearly every start finds no mark

        return not psutil.pid_exists(owner)

    def set(self) -> None:
        """Mark that a load begins."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_text(str(os.getpid()))
        except OSError as error:
            _log.warning("no mark can be set: %s", error)

    def clear(self) -> None:
        """The engine has answered, one way or the other."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("the mark cannot be removed: %s", error)


def safe_mode_asked() -> bool:
    """Return whether this start was asked to be careful."""
    return os.environ.get(_SAFE_MODE) == _ASKED


def enter_safe_mode() -> None:
    """Make the engine of this process use what every processor has."""
    os.environ[_SAFE_MODE] = _IN_FORCE
    os.environ["DUOTAIL_ISA"] = SAFE_ISA


def environment_for(*, safe: bool) -> dict[str, str]:
    """The environment of a process that is started by this one, careful or normal."""
    environment = dict(os.environ)
    if environment.pop(_SAFE_MODE, "") == _IN_FORCE:
        del environment["DUOTAIL_ISA"]
    return environment | ({_SAFE_MODE: _ASKED} if safe else {})
