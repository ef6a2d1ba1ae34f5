"""Starts Duotail once more, when this run is over."""

from __future__ import annotations

import os
import subprocess
import sys

from app.diagnostics.safe_mode import environment_for


def start_again(*, safe: bool) -> None:
    """Start a new process like this one. The lock on the data folder must be free."""
    subprocess.Popen(  # noqa: S603 - ourselves, with our own arguments
        [*_command(), *sys.argv[1:]], env=environment_for(safe=safe), start_new_session=True
    )


def _command() -> list[str]:
    """Return what started this process: an AppImage's Python is gone as soon as it has ended."""
    image, mounted = os.environ.get("APPIMAGE"), os.environ.get("APPDIR")
    if image and mounted and sys.executable.startswith(mounted):
        return [image]
    if getattr(sys, "frozen", False):
        return [sys.executable]
    alone = ["-I", "-B"] if sys.flags.isolated else []  # as the packages' launchers have it
    return [sys.executable, *alone, "-m", "app"]
