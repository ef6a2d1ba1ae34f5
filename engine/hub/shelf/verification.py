"""Checking a model: its headers, and every byte of it against a hash where one is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.hashes import by_name, expected, sha256_of
from engine.hub.remote.listing import RemoteFile
from engine.hub.shelf.copies import CopyProgress, Stopped, Tell
from engine.hub.shelf.shelf import Shelf
from engine.language import listed as listed_words
from engine.language import tr, tr_count
from engine.model.local_model import LocalModel
from engine.model.model_files import own_files, size_of


@dataclass(frozen=True, slots=True)
class VerifiedModel:
    """What checking a model came to.

    Attributes:
        compared: files whose hash is what it should be.
        read: files of which no hash is known: they could be read to their end.
        wrong: files that are not what they should be.
        problem: what is wrong, in a sentence; "" where nothing is.
    """

    compared: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    problem: str = ""

    @property
    def words(self) -> str:
        """All of it in a sentence."""
        if self.problem:
            return self.problem
        files = len(self.compared) + len(self.read)
        counted = tr_count("{n} file", "{n} files", files)
        if not self.read:
            return tr("{files} checked: every byte is as it was published.").format(files=counted)
        if not self.compared:
            return tr("{files} read to the end; there is nothing to compare them with.").format(
                files=counted
            )
        said = tr("{files} checked; of some there is nothing to compare them with.")
        return said.format(files=counted)


def verify(
    path: Path,
    shelf: Shelf,
    tell: Tell,
    stopped: Stopped,
    listed: Iterable[RemoteFile] = (),
) -> VerifiedModel:
    """Read all of a model.

    Args:
        path: of the model.
        listed: what the hub said of its files, where somebody knows.

    Raises:
        Cancelled: `stopped` said so.
    """
    try:
        files = own_files(path)
        total, done = size_of(files), 0
        found = VerifiedModel()
        remote, ours = by_name(listed), _ours(path, shelf)
        for file in files:
            before = done

            def told(nbytes: int) -> None:
                nonlocal done
                done += nbytes
                tell(CopyProgress(done, total, checking=True))

            wanted = expected(file, remote, ours)
            if wanted is None:
                sha256_of(file, told, stopped)
                found = _with(found, read=file.name)
            elif wanted.agrees(file, told, stopped):
                found = _with(found, compared=file.name)
            else:
                found = _with(found, wrong=file.name)
            done = before + file.stat().st_size
        if found.wrong:
            return _damaged(found)
        LocalModel.inspect(path)
    except UserFixable as error:
        return VerifiedModel(problem=error.cause)
    except OSError as error:
        said = tr("It cannot be read to its end: {error}.")
        return VerifiedModel(problem=said.format(error=error.strerror or error))
    return found


def _ours(path: Path, shelf: Shelf) -> dict[str, str]:
    """What its files were when they were copied."""
    for known in shelf.memory.all():
        if known.path == str(path):
            return dict(known.hashes)
    return {}


def _with(
    found: VerifiedModel, compared: str = "", read: str = "", wrong: str = ""
) -> VerifiedModel:
    return VerifiedModel(
        (*found.compared, *([compared] if compared else [])),
        (*found.read, *([read] if read else [])),
        (*found.wrong, *([wrong] if wrong else [])),
    )


def _damaged(found: VerifiedModel) -> VerifiedModel:
    said = tr("Damaged: {files} is not what was published. Download the model again.")
    if len(found.wrong) > 1:
        said = tr("Damaged: {files} are not what was published. Download the model again.")
    names = listed_words(found.wrong[:5])
    return VerifiedModel(found.compared, found.read, found.wrong, said.format(files=names))
