"""Attached files that a model reads in parts, with a tool, where they are too long for its context.

The files stand whole in the messages (`app.session.attachments`). While the tool may be called, a
long one is only named to the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from app.history import StoredMessage
from app.session.attachments import SentFile, sent_files
from app.session.passages import extract, passages_of
from engine.request import Role, Tool

FILES: Final = "files"
"""Names the tool in the setups of conversations."""
READ_FILE: Final = "read_attached_file"
_SHORT = 4_000
"""Characters of a file that goes along whole in any case: about a thousand tokens."""
_AT_ONCE = 5_000
"""Characters of a part."""
_FOUND = 2_000
"""Characters of what a search finds: each of them has to be read before the answer goes on, and
small models lose the one passage that matters among many."""

_FOUND_WORDS = (
    "The {taken} of {all} passages that have most of these words:\n\n{text}\n\n"
    "Answer the user now if this says what is asked."
)
"""Small models go on searching for what they have just been told unless they are told this, too."""

READ_FILE_TOOL = Tool(
    READ_FILE,
    "Read from a file that the user attached to this conversation. With `search`, returns the "
    "passages that have most of these words; without it, the file in parts, from `part` 1 on.",
    '{"type": "object", "properties": {"file": {"type": "string", "description": "Name of the '
    'file"}, "search": {"type": "string", "description": "Words to look for"}, "part": {"type": '
    '"integer", "minimum": 1}}, "required": ["file"], "additionalProperties": false}',
)


class NoSuchPart(Exception):
    """A file or part that is asked for is not there; the text tells the model."""


def files_named(message: str) -> str:
    """Return a message with its long files only named."""
    files, said = sent_files(message)
    if not any(len(file.text) > _SHORT for file in files):
        return message
    told = [
        f"`{file.name}`:\n{file.block}\n"
        if len(file.text) <= _SHORT
        else f"`{file.name}`: {len(file.text)} characters, which {READ_FILE} reads\n"
        for file in files
    ]
    rest = message[said:]
    return "\n".join([*told, rest] if rest.strip() else told)


def read_part(messages: Sequence[StoredMessage], file: str, search: str, part: int) -> str:
    """Return the passages of an attached file that are asked for.

    Args:
        messages: the conversation.
        file: its name; of several files of one name the last is meant.
        search: words of the passages; empty: the file in order.
        part: which part of it, from 1.

    Raises:
        NoSuchPart: there is no such file, or it has fewer parts.
    """
    found = _file(messages, file)
    if search.strip():
        told = extract(found.text, search, _FOUND)
        return _FOUND_WORDS.format(taken=told.taken, all=told.passages, text=told.text)
    parts = _parts(found.text)
    if not 1 <= part <= len(parts):
        raise NoSuchPart(f"{found.name} has the parts 1 to {len(parts)}.")
    return f"Part {part} of {len(parts)}:\n{parts[part - 1]}"


def _file(messages: Sequence[StoredMessage], name: str) -> SentFile:
    files = [
        file
        for message in messages
        if message.role is Role.USER
        for file in sent_files(message.text)[0]
    ]
    wanted = name.strip().strip("`").casefold()
    exact = [file for file in files if file.name.casefold() == wanted]
    alike = [file for file in files if wanted and wanted in file.name.casefold()]
    if exact or len({file.name for file in alike}) == 1:
        return (exact or alike)[-1]
    names = ", ".join(dict.fromkeys(file.name for file in files))
    raise NoSuchPart(f"No file of this name is attached. Attached: {names or 'none'}.")


def _parts(text: str) -> list[str]:
    """Return a text in parts of whole passages."""
    parts = [""]
    for passage in passages_of(text):
        if parts[-1] and len(parts[-1]) + len(passage) + 2 > _AT_ONCE:
            parts.append("")
        parts[-1] += ("\n\n" if parts[-1] else "") + passage
    return parts
