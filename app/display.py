"""A screen to open the window on: without one, Qt ends the process."""

from __future__ import annotations

import os
import re
import socket
import sys

from engine.errors import Absent
from engine.language import tr


def check_display(environment: os._Environ[str] | dict[str, str]) -> None:
    """Make sure that a window can be opened: Qt would end the process.

    Raises:
        Absent: there is no screen.
    """
    if sys.platform in {"win32", "darwin"} or environment.get("QT_QPA_PLATFORM"):
        return
    display = environment.get("DISPLAY", "")
    if environment.get("WAYLAND_DISPLAY") or _answers(display):
        return
    raise Absent(
        tr("The screen {name} cannot be reached.").format(name=display)
        if display
        else tr("There is no screen here."),
        tr("Run it on a desktop or under “xvfb-run -a”; “duotail chat” needs no screen."),
    )


def _answers(display: str) -> bool:
    """Return whether an X server listens; one on another machine is taken at its word."""
    local = re.fullmatch(r"(?:unix)?:(\d+)(\.\d+)?", display)
    if local is None:
        return bool(display)
    with socket.socket(socket.AF_UNIX) as door:
        door.settimeout(2)
        for address in (f"\0/tmp/.X11-unix/X{local[1]}", f"/tmp/.X11-unix/X{local[1]}"):  # noqa: S108
            try:
                door.connect(address)
            except OSError:
                continue
            return True
    return False
