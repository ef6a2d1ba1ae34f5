"""Files that go along with a message: read, told apart from what holds no text, put into it."""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.session.encodings import ENCODINGS, DecodedText, decode, decode_as
from engine.errors import UserFixable
from engine.language import tr, tr_count
from engine.language.units import file_size

MOST_BYTES = 2 * 2**20
"""More than the context of any model that runs on a PC."""
MODELS = {".gguf", ".safetensors", ".ggml", ".pth", ".pt", ".onnx"}
_DOCUMENTS = {".pdf", ".docx"}
PICTURES = {".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic", ".avif"}
_OPENING = re.compile(r"`([^`\n]+)`:\n(`{3,})[^\n`]*\n")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text under a name. `notice` says what the reader should know of how it was read."""

    name: str
    text: str
    size: int
    """Size of the file on disk, in bytes."""
    notice: str = ""
    pasted: bool = False
    """True if it comes from the clipboard, and may as well stand in the message itself."""
    path: str = ""
    """The file, where it may be read again in another encoding."""
    encoding: str = ""
    """The encoding, of `ENCODINGS`, that was guessed or chosen; empty where the file says it."""
    taken: str = ""
    """The end of the name that tells how many passages go along; empty where the file is whole."""


def is_document(path: Path) -> bool:
    """Return whether a file is a PDF or DOCX by its name, which takes a while to read."""
    return path.suffix.lower() in _DOCUMENTS


def read_attachment(
    path: Path, stopped: Callable[[], bool] = lambda: False, encoding: str = ""
) -> Attachment:
    """Read a text file of unknown encoding, or the text of a document.

    Args:
        path: the file.
        encoding: of a text file, as the user has chosen; empty: as it looks.
        stopped: tells whether a document is no longer wanted.

    Raises:
        UserFixable: it has no text, is too large or cannot be read; in words for the user.
        Cancelled: `stopped` said so.
    """
    name = path.name
    try:
        about = path.stat()
        if stat.S_ISDIR(about.st_mode):
            raise _folder(path)
        if path.suffix.lower() in MODELS:
            raise _model(name)
        if not stat.S_ISREG(about.st_mode):
            raise _no_text(name)
        if is_document(path):
            from app.session.documents import read_document  # not before it is needed

            text, notice = read_document(path, stopped)
            return _made(Attachment(name, text, about.st_size, notice))
        if about.st_size > MOST_BYTES:
            raise _too_large(name, about.st_size)
        raw = path.read_bytes()
    except OSError as error:
        raise UserFixable(
            tr("\u201c{name}\u201d could not be read.").format(name=name),
            tr("Check that the file is still there and that you may open it."),
            str(error),
        ) from error
    found, notice = _decoded(raw, name, encoding)
    text = _with_newlines(found.text)
    place = str(path) if found.guessed else ""
    return _made(Attachment(name, text, len(raw), notice, path=place, encoding=found.guessed))


def model_among(paths: Sequence[Path]) -> Path | None:
    """The model among files that were given: a GGUF file, or a folder with weights."""
    for path in paths:
        if path.suffix.lower() == ".gguf" or (path.is_dir() and holds_weights(path)):
            return path
    return None


def pasted(text: str, number: int) -> Attachment:
    """Return a long text from the clipboard as an attachment."""
    name = tr("Pasted text {number}").format(number=number)
    size = len(text.encode("utf-8", "replace"))
    return _made(Attachment(name, _with_newlines(text), size, pasted=True))


@lru_cache(maxsize=32)
def as_block(attachment: Attachment) -> str:
    """The file as it stands in the message: its name, then its text in a fence."""
    name = re.sub(r"[`\s]+", " ", attachment.name).strip() or "text"
    longest = max((len(run) for run in re.findall(r"`{3,}", attachment.text)), default=2)
    fence = "`" * (longest + 1)
    suffix = Path(name).suffix[1:].lower()
    code = re.fullmatch(r"[a-z0-9+#]{1,12}", suffix) and f".{suffix}" not in _DOCUMENTS
    language = suffix if code else ""
    text = attachment.text if attachment.text.endswith("\n") else attachment.text + "\n"
    return f"`{name}`:\n{fence}{language}\n{text}{fence}\n"


def with_attachments(attachments: Sequence[Attachment], text: str) -> str:
    """The whole message: the files first, then what is said about them."""
    blocks = [as_block(each) for each in attachments]
    return "\n".join([*blocks, text]) if text.strip() else "\n".join(blocks)


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file that stands in a message."""

    name: str
    text: str
    block: str
    """The text in its fence, as it stands in the message."""
    start: int
    """Character of the message at which the block begins."""

    @property
    def size(self) -> int:
        """Return the size of the text in bytes."""
        return len(self.text.encode("utf-8", "replace"))

    @property
    def lines(self) -> int:
        """Return the number of lines of the text."""
        return self.text.count("\n") + 1


def sent_files(message: str) -> tuple[list[SentFile], int]:
    """Return the files that open a message, and the character at which what was said begins."""
    files: list[SentFile] = []
    start = 0
    while (opening := _OPENING.match(message, start)) is not None:
        end = message.find(f"\n{opening[2]}\n", opening.end() - 1)
        if end < 0:
            break
        block_start = opening.start(2)
        text = message[opening.end() : end]
        start = end + len(opening[2]) + 2
        block = message[block_start : start - 1]
        files.append(SentFile(opening[1], text, block, block_start))
        while message.startswith("\n", start):
            start += 1
    return files, start


def _made(attachment: Attachment) -> Attachment:
    """Put into its block here already, beside the window's thread."""
    as_block(attachment)
    return attachment


def _decoded(raw: bytes, name: str, encoding: str) -> tuple[DecodedText, str]:
    """The text, and a notice where its encoding had to be guessed."""
    if encoding:
        return decode_as(raw, encoding), ""
    found = decode(raw)
    if found is None:
        raise _no_text(name)
    if not found.guessed:
        return found, ""
    if found.guessed == "utf_8":
        return found, tr_count(
            "{n} byte of the attached file is not UTF-8. It is shown as \ufffd.",
            "{n} bytes of the attached file are not UTF-8. They are shown as \ufffd.",
            found.replaced,
        )
    notice = tr(
        "“{name}” does not state its encoding. It was read as {encoding}; click that to change it."
    ).format(name=name, encoding=tr(ENCODINGS[found.guessed]))
    return found, notice


def _with_newlines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")


def _folder(path: Path) -> UserFixable:
    if holds_weights(path):
        return _model(path.name)
    return UserFixable(
        tr("\u201c{name}\u201d is a folder.").format(name=path.name),
        tr("Attach the files in it that matter."),
    )


def holds_weights(folder: Path) -> bool:
    """Return whether a model may be in a folder."""
    try:
        return any(folder.glob("*.safetensors")) or any(folder.glob("*.gguf"))
    except OSError:
        return False


def _model(name: str) -> UserFixable:
    return UserFixable(
        tr("\u201c{name}\u201d is a model, not a text.").format(name=name),
        tr("A message can only carry text. A model has to be loaded instead."),
    )


def _no_text(name: str) -> UserFixable:
    if Path(name).suffix.lower() in PICTURES:
        return UserFixable(
            tr("“{name}” is a picture, and the models that Duotail runs see text only.").format(
                name=name
            ),
            tr("Describe what is in it, or attach its text."),
        )
    return UserFixable(
        tr("\u201c{name}\u201d is not a text file.").format(name=name),
        tr("Save it as plain text, PDF or DOCX in the program it comes from, and attach that."),
    )


def _too_large(name: str, size: int) -> UserFixable:
    return UserFixable(
        tr("\u201c{name}\u201d is {size} large, and at most {most} can be attached.").format(
            name=name, size=file_size(size), most=file_size(MOST_BYTES)
        ),
        tr("Attach the part of it that matters."),
    )
