"""Install packages with pip: with progress, and a sentence where it does not work."""

import collections
import os
import subprocess
from pathlib import Path

from told import ROOT, SetupProblem, Status

CONSTRAINTS = ROOT / "packaging" / "constraints.txt"

_FULL = ("No space left on device", "Errno 28", "Disk quota exceeded")
_OFFLINE = (
    *("Retrying (", "ConnectionError", "ProxyError", "Max retries", "timed out", "IncompleteRead"),
    *("Connection broken", "Connection aborted", "ProtocolError", "name resolution"),
    *("is invalid.", "DO NOT MATCH THE HASHES"),  # half a file, to older versions of pip
)
_FORBIDDEN = ("Permission denied", "Read-only file system")
_KEPT = "run make again: what was done stays, and what was fetched whole is not fetched again."


def install(python: Path, arguments: "list[str]", status: Status, **environment: str) -> None:
    """Install packages into the environment of `python`.

    Modules are compiled when they are first imported, most of them never.

    Raises:
        SetupProblem: why it did not work, and what pip said last.
    """
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    command += ["--no-compile", "--progress-bar", "off", "-c", str(CONSTRAINTS), *arguments]
    said = collections.deque(maxlen=40)  # type: collections.deque[str]
    process = subprocess.Popen(
        command,
        cwd=str(ROOT),
        env=dict(os.environ, PYTHONUNBUFFERED="1", **environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
        close_fds=False,  # the lock of the set-up is held until all that it started has ended
    )
    count = 0
    for line in process.stdout or ():
        said.append(line)
        word, _, rest = line.strip().partition(" ")
        if word == "Collecting":
            count += 1
            status.update("packages:", "{} found".format(count))
        elif word == "Downloading":
            status.update("packages:", "{} found, fetching {}".format(count, _short(rest)))
        elif line.startswith("Installing collected"):
            status.update("packages:", "unpacking {}".format(len(rest.split(","))))
    status.update("packages:", "")
    if process.wait() != 0:
        raise SetupProblem("{}\n\n{}".format("".join(said).rstrip(), explained("".join(said))))


def explained(said: str) -> str:
    """Return why pip failed, in a sentence, and what to do."""
    if any(sign in said for sign in _FULL):
        return "The disk is full: make space on it, then " + _KEPT
    if any(sign in said for sign in _FORBIDDEN):
        return (
            "Something could not be written, as the lines above say. Once that is mended, " + _KEPT
        )
    if any(sign in said for sign in _OFFLINE):
        return "The download broke off, or this machine is offline. When it is online, " + _KEPT
    return "Installing did not work: the lines above say why. When that is mended, " + _KEPT


def _short(download: str) -> str:
    """The package's name and size out of what pip says of a file."""
    file, _, size = download.partition(" ")
    name = file.rsplit("/", 1)[-1].split("-")[0]
    return (name + " " + size.strip("()")).strip() if size.startswith("(") else name
