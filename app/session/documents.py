"""PDF and DOCX files: their text, read by a process that is watched and can be ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from app.session.document_text import Extract, extract_json
from engine.errors import Cancelled, UserFixable
from engine.language import later, tr
from engine.language.units import file_size
from engine.machine.sandbox import LimitExceeded, QuestionFailed, Sandbox
from engine.machine.sandbox_process import Limit, SandboxLimits

_BROKEN = {
    Limit.TIME: "slow",
    Limit.MEMORY: "heavy",
    Limit.LENGTH: "heavy",
    Limit.CRASH: "damaged",
}
_REASONS = {
    "encrypted": (
        later("“{name}” is protected with a password."),
        later("Save it without one in the program that opens it, and attach that."),
    ),
    "pictures": (
        later("“{name}” holds no text, only pictures of it, as scanners make them."),
        later("Recognise its text with another program (OCR), and attach the result."),
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
    most = SandboxLimits(limits.last_seconds, limits.memory, patience=1)
    arguments = str(path.absolute()), limits.text, limits.seconds
    with closing(Sandbox()) as sandbox:
        try:
            said = sandbox.ask(extract_json, *arguments, limits=most, stopped=stopped)
        except QuestionFailed as error:
            return Extract(refused="damaged", details=str(error))
        except LimitExceeded as exceeded:
            if exceeded.limit is Limit.STOPPED:
                raise Cancelled from None
            return Extract(refused=_BROKEN[exceeded.limit], details=str(exceeded))
    return Extract(**cast("dict[str, Any]", said))


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
