"""Starts Duotail once more, when this run is over."""

from __future__ import annotations

import subprocess
import sys

from app.diagnostics.safe_mode import environment_for


def start_again(*, safe: bool) -> None:
    """Start a new process like this one. The lock on the data folder must be free."""
    frozen = getattr(sys, "frozen", False)
    command = [sys.executable] if frozen else [sys.executable, "-m", "app"]
    subprocess.Popen(  # noqa: S603 - ourselves, with our own arguments
        [*command, *sys.argv[1:]], env=environment_for(safe=safe), start_new_session=True
    )
