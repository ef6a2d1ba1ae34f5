"""A wheel from the package index, as pip finds it: to be opened as an archive, never installed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable

_OFFLINE = ("Retrying (", "ConnectionError", "ProxyError", "Max retries", "timed out")


@dataclass(frozen=True, slots=True)
class WantedWheel:
    """A version of a project in the index.

    Attributes:
        sha256: of the wheel, which pip then checks; "" where what is inside is checked later.
    """

    project: str
    version: str
    sha256: str = ""


def download(wanted: WantedWheel, work: Path) -> Path:
    """Return the wheel in the empty folder `work`, with the user's own settings and mirrors of pip.

    Raises:
        UserFixable: why it cannot be had.
    """
    listed, line = work / "requirements.txt", f"{wanted.project}=={wanted.version}"
    hashes = f" --hash=sha256:{wanted.sha256}" if wanted.sha256 else ""
    listed.write_text(f"{line}{hashes}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--retries", "2", "--timeout", "20"]
    command += ["--require-hashes"] * bool(wanted.sha256)
    command += ["-r", str(listed), "-d", str(work)] + ["-q"] * (not sys.stdout.isatty())
    here = dict(os.environ, TMPDIR=str(work))  # the disk that was looked at, and cleared with it
    asked = subprocess.run(command, stderr=subprocess.PIPE, text=True, env=here)
    wheels = sorted(work.glob("*.whl"))
    if asked.returncode != 0 or not wheels:
        raise UserFixable(reason(asked.stderr, wanted), "", asked.stderr)
    return wheels[0]


def reason(said: str, wanted: WantedWheel) -> str:
    """Return why pip failed, in a sentence."""
    if "DO NOT MATCH THE HASHES" in said:
        return "The package index gave another file than the expected one."
    if "No space left" in said:
        return "There is not enough room on the disk."
    if any(words in said for words in _OFFLINE):
        return "The package index cannot be reached."
    if "No matching distribution" in said:
        return f"The package index that pip uses has no {wanted.project} {wanted.version}."
    lines = [line.strip() for line in said.splitlines() if line.startswith("ERROR:")]
    return f"pip stopped with “{lines[-1] if lines else 'no word'}”."
