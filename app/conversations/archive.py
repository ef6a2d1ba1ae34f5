"""Conversations as files, read and written beside the window. No Qt in here."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.history import Conversation
from engine.errors import UserFixable
from engine.language import tr

Tell = Callable[[int, int], None]
"""How many are done, and of how many."""

_LONGEST_NAME = 80
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]+')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class Format(StrEnum):
    """What an export is written as; the value is the ending of the file."""

    MARKDOWN = "md"
    JSON = "json"


class Cancelled(Exception):
    """The user wants no more of it."""


class Progress:
    """Tells how far something is, and stops it where the user wants that."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._stop = threading.Event()

    def cancel(self) -> None:
        """End it at the next step; from any thread."""
        self._stop.set()

    def step(self, done: int, total: int) -> None:
        """So much is done. Raises `Cancelled`."""
        if self._stop.is_set():
            raise Cancelled
        self._tell(done, total)


def file_name(title: str, form: Format, taken: set[str]) -> str:
    """A name that every file system takes and that is not `taken`; it is added there."""
    stem = " ".join(_NOT_IN_NAMES.sub(" ", title).split())[:_LONGEST_NAME].strip(" .")
    if not stem or _RESERVED.fullmatch(stem):
        stem = f"{tr('Conversation')} {stem}".strip()
    name, number = f"{stem}.{form}", 2
    while name.casefold() in taken:
        name, number = f"{stem} ({number}).{form}", number + 1
    taken.add(name.casefold())
    return name


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    with _words_for(path):
        part.write_text(text, encoding="utf-8")
        part.replace(path)


def read(path: Path) -> str:
    """The text of a file; a byte order mark is no part of it."""
    with _words_for(path):
        return path.read_bytes().decode("utf-8-sig")


@dataclass(frozen=True, slots=True)
class Result:
    """What came of an import: files that cannot be taken in do not keep the others out."""

    conversations: tuple[Conversation, ...]
    troubles: tuple[UserFixable, ...]


def export_one_file(
    history: Path,
    conversations: Sequence[Conversation],
    path: Path,
    form: Format,
    progress: Progress,
) -> int:
    """Write conversations into one file; how many there are in it."""
    raise UserFixable(tr("This is not possible yet."), "")


def export_files(
    history: Path, conversations: Sequence[Conversation], folder: Path, progress: Progress
) -> int:
    """Write each conversation into a file of its own; how many were written."""
    raise UserFixable(tr("This is not possible yet."), "")


def import_files(history: Path, paths: Sequence[Path], progress: Progress) -> Result:
    """Take the conversations in files into the history."""
    raise UserFixable(tr("This is not possible yet."), "")


@contextmanager
def _words_for(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise UserFixable(
            tr("{name} is not a text file.").format(name=path.name),
            tr("Choose a file that was exported from Duotail or another chat program."),
            str(error),
        ) from error
    except OSError as error:
        raise UserFixable(
            tr("{name} could not be read or written.").format(name=path.name),
            tr("Check that the drive is connected and not full, and that you may use the folder."),
            str(error),
        ) from error
