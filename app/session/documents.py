"""PDF and DOCX files: their text, read by a process that is watched and can be ended."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from app.session.document_text import Extract
from engine.errors import Cancelled, UserFixable
from engine.language import later, tr
from engine.language.units import file_size

_READER = Path(__file__).with_name("document_text.py")
_STEP_S = 0.05
_REASONS = {
    "encrypted": (
        later("“{name}” is protected with a password."),
        later("Save it without one in the program that opens it, and attach that."),
    ),
    "pictures": (
        later("“{name}” holds no text, only pictures of it, as scanners make them."),
        later("Have its text recognised (OCR) by a program that can, and attach the result."),
    ),
    "heavy": (
        later("“{name}” is too complex to be read."),
        later("Attach a part of it, or copy the text and paste it here."),
    ),
    "slow": (
        later("“{name}” takes too long to read."),
        later("Attach a part of it, or copy the text and paste it here."),
    ),
    "damaged": (
        later("“{name}” is damaged, or not what its name says."),
        later("Open it in another program, save it anew, and attach that."),
    ),
}


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """The most that reading a document may take.

    Attributes:
        size: bytes of the file.
        text: characters that are kept.
        seconds: then reading stops with the pages read so far.
        last_seconds: then the process is ended, and nothing is kept.
        memory: bytes that the process may hold.
    """

    size: int = 64 * 2**20
    text: int = 2 * 2**20
    seconds: float = 20.0
    last_seconds: float = 30.0
    memory: int = 2**30


def read_document(
    path: Path, stopped: Callable[[], bool], limits: DocumentLimits = DocumentLimits()
) -> tuple[str, str]:
    """Return the text of a document, and a notice where that is not all of it.

    Raises:
        UserFixable: there is no text to be had; in words for the user.
        Cancelled: `stopped` said so.
        OSError: the file cannot be opened.
    """
    size = path.stat().st_size
    if size > limits.size:
        cause = tr("“{name}” is {size} large, and at most {most} can be read.").format(
            name=path.name, size=file_size(size), most=file_size(limits.size)
        )
        raise UserFixable(cause, tr("Attach the part of it that matters."))
    with path.open("rb"):
        pass  # what may not be opened is said here, by the system
    extract = _ask(path, stopped, limits)
    if extract.refused:
        cause, remedy = _REASONS[extract.refused]
        raise UserFixable(tr(cause).format(name=path.name), tr(remedy), extract.details)
    return extract.text, _notice(path.name, extract)


def _ask(path: Path, stopped: Callable[[], bool], limits: DocumentLimits) -> Extract:
    command = [sys.executable, "-I", str(_READER), str(path)]
    command += [str(limits.text), str(limits.seconds)]
    with tempfile.TemporaryFile() as answer:
        child = subprocess.Popen(  # noqa: S603 - our own file; the document is an argument
            command,
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
        try:
            refused = _watch(child, stopped, limits)
        finally:
            child.kill()
            child.wait()
        if refused:
            return Extract(refused=refused)
        answer.seek(0)
        try:
            return Extract(**json.loads(answer.read()))
        except ValueError:
            return Extract(refused="damaged", details=f"exit code {child.returncode}")


def _watch(
    child: subprocess.Popen[bytes], stopped: Callable[[], bool], limits: DocumentLimits
) -> str:
    """Wait for the end of the reader; return why it may not go on, or ""."""
    end = time.monotonic() + limits.last_seconds
    while True:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(_STEP_S)
            return ""
        if stopped():
            raise Cancelled
        if time.monotonic() > end:
            return "slow"
        if _memory(child.pid) > limits.memory:
            return "heavy"


def _memory(pid: int) -> int:
    """Bytes that a process holds, with its children: on Windows the first is only a launcher."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return sum(each.memory_info().rss for each in family)
    return 0


def _notice(name: str, extract: Extract) -> str:
    """Say what is missing of a document."""
    if extract.cut and extract.pages:
        return tr("“{name}” is long: only pages 1 to {read} of {pages} were read.").format(
            name=name, read=extract.read, pages=extract.pages
        )
    if extract.cut:
        return tr("“{name}” is long: only its beginning was read.").format(name=name)
    if extract.empty * 2 > extract.pages:
        return tr(
            "“{name}”: {empty} of {pages} pages hold no text; they may be scanned pictures."
        ).format(name=name, empty=extract.empty, pages=extract.pages)
    return ""
