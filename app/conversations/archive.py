"""Conversations as files, read and written beside the window. No Qt in here.

What knows the formats is imported where it is used: the first picture does without.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from app.history import Conversation, StoredMessage, beside
from app.history.trees import Trees
from app.session.titles import title_of
from engine.errors import Cancelled, UserFixable
from engine.language import tr
from engine.request import Role

if TYPE_CHECKING:
    from app.history.exchange import Imported

_UNNAMED = "new chat"
"""The title that ChatGPT and Open WebUI give to what nobody has named."""
_LONGEST_NAME = 80
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f<>:"/\\|?*]+')
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class ExportFormat(StrEnum):
    """Formats of an export; the value is the ending of the file."""

    MARKDOWN = "md"
    JSON = "json"
    HTML = "html"
    PDF = "pdf"

    @property
    def to_read(self) -> bool:
        """True if it is for people only: neither the system prompt nor marks are in it."""
        return self in (ExportFormat.HTML, ExportFormat.PDF)


class Progress:
    """Tells how far something is, in percent, and ends it where the user wants that."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._stop = threading.Event()

    def cancel(self) -> None:
        """End it at the next step; from any thread."""
        self._stop.set()

    def step(self, done: int, total: int) -> None:
        """Tell that `done` of `total` are done. Raises `Cancelled`."""
        if self._stop.is_set():
            raise Cancelled
        self._tell(100 * done // max(total, 1))


@dataclass(frozen=True, slots=True)
class Taken:
    """Result of an import: files that cannot be read do not keep the others out."""

    imported: Imported
    troubles: tuple[UserFixable, ...]


def export(
    history: Path,
    conversations: Sequence[Conversation],
    path: Path,
    form: ExportFormat,
    progress: Progress,
) -> None:
    """Write conversations into a file; as Markdown each into its own where `path` is a folder."""
    from app.history.exchange import export_json

    with beside(history) as store:
        if form is ExportFormat.JSON:
            ids = [each.id for each in conversations]
            write(path, export_json(store, ids, progress.step))
            return
        folder = path.is_dir()
        taken = {each.name.casefold() for each in path.iterdir()} if folder else set()
        for number, each in enumerate(conversations):
            progress.step(number, len(conversations))
            place = path / file_name(each.title, form, taken) if folder else path
            _write_one(place, each, store.branches.messages(each.id), form)


def _write_one(
    path: Path,
    conversation: Conversation,
    messages: Sequence[StoredMessage],
    form: ExportFormat,
) -> None:
    from app.history.markdown_file import markdown, reading_copy

    if not form.to_read:
        write(path, markdown(conversation, messages))
        return
    from app.conversations.rich_export import html_of, write_pdf

    text = reading_copy(conversation, messages)
    if form is ExportFormat.HTML:
        write(path, html_of(text, conversation.title))
        return
    part = path.with_name(path.name + ".part")
    with _words_for(path):
        write_pdf(part, text, conversation.title)
        part.replace(path)


def write_reading_copy(history: Path, conversation: Conversation, path: Path) -> None:
    """Write a conversation as clean Markdown, which is not to be imported again."""
    from app.history.markdown_file import reading_copy

    with beside(history) as store:
        write(path, reading_copy(conversation, store.branches.messages(conversation.id)))


def take_in(history: Path, paths: Sequence[Path], progress: Progress) -> Taken:
    """Store the conversations in files, each file as a whole or not at all."""
    from app.history.exchange import Imported, import_text

    conversations: list[Conversation] = []
    troubles: list[UserFixable] = []
    left_out = marks = 0
    for path in paths:
        progress.step(0, 1)
        try:
            text = read(path)
            with beside(history) as store:
                imported = import_text(store, text, progress.step)
                titled = [_titled(store, each) for each in imported]
        except UserFixable as trouble:
            troubles.append(_named(trouble, path))
        else:
            conversations += titled
            left_out += imported.left_out
            marks += imported.marks
    return Taken(Imported(conversations, left_out, marks), tuple(troubles))


def _titled(store: Trees, conversation: Conversation) -> Conversation:
    """Return a conversation, which is called by its first message where nobody has named it."""
    if conversation.title.strip().casefold() not in {"", _UNNAMED, tr("New chat").casefold()}:
        return conversation
    said = (
        each.text for each in store.branches.messages(conversation.id) if each.role is Role.USER
    )
    title = title_of(next(said, ""))
    store.conversations.rename(conversation.id, title)
    return replace(conversation, title=title)


def file_name(title: str, form: ExportFormat, taken: set[str]) -> str:
    """Return a name that every file system takes and that is not `taken`; it is added there."""
    stem = " ".join(_NOT_IN_NAMES.sub(" ", title).split())[:_LONGEST_NAME].strip(
        " .\N{HORIZONTAL ELLIPSIS}"
    )
    if not stem or _RESERVED.fullmatch(stem):
        stem = (tr("Conversation") + " " + stem).strip()
    name, number = f"{stem}.{form}", 2
    while name.casefold() in taken:
        name, number = f"{stem} ({number}).{form}", number + 1
    taken.add(name.casefold())
    return name


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(path.name + ".part")
    with _words_for(path):
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)


def read(path: Path) -> str:
    """The text of a file; a byte order mark is no part of it."""
    with _words_for(path):
        return path.read_bytes().decode("utf-8-sig")


def _named(trouble: UserFixable, path: Path) -> UserFixable:
    """Return the same error with this file's name."""
    if path.name in trouble.cause:
        return trouble
    return UserFixable(f"{path.name}: {trouble.cause}", trouble.remedy, trouble.details)


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
