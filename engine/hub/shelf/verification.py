"""Checking a model: its headers, and every byte of it against a hash where one is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.hashes import expected, sha256_of
from engine.hub.shelf.relocation import BytesDone, Stopped, Tell
from engine.hub.shelf.shelf import ModelShelf
from engine.language import listed as listed_words
from engine.language import tr, tr_count
from engine.model.local_model import LocalModel
from engine.model.model_files import own_files, size_of


@dataclass(frozen=True, slots=True)
class VerifiedModel:
    """Result of verifying a model's files.

    Attributes:
        compared: files whose hash is what it should be.
        copied: those hashes were taken when the files were copied, not by their publisher.
        read: files of which no hash is known: they could be read to their end.
        wrong: files that are not what they should be.
        problem: what is wrong, in a sentence; "" where nothing is.
    """

    compared: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    problem: str = ""
    copied: bool = False

    @property
    def words(self) -> str:
        """Describe the result in a sentence."""
        if self.problem:
            return self.problem
        files = len(self.compared) + len(self.read)
        counted = tr_count("{n} file", "{n} files", files)
        if not self.read:
            said = tr("{files} checked: every byte is as it was published.")
            if self.copied:
                said = tr("{files} checked: every byte is as it was copied.")
            return said.format(files=counted)
        if not self.compared:
            return tr("{files} read to the end; there is nothing to compare them with.").format(
                files=counted
            )
        said = tr("{files} checked; of some there is nothing to compare them with.")
        return said.format(files=counted)


def verify(path: Path, shelf: ModelShelf, tell: Tell, stopped: Stopped) -> VerifiedModel:
    """Read all of a model, and compare it with what is known of it.

    Args:
        path: of the model.
        shelf: knows the hashes of copies.
        tell: hears how far it is.
        stopped: asked between pieces.

    Raises:
        Cancelled: `stopped` said so.
    """
    try:
        files = own_files(path)
        heard = BytesDone(size_of(files), tell, stopped).add
        ours = _ours(path, shelf)
        compared, read, wrong = list[str](), list[str](), list[str]()
        for file in files:
            wanted = expected(file, ours)
            if wanted is None:
                sha256_of(file, heard)
                read.append(file.name)
            else:
                right = wanted.agrees(file, heard)
                (compared if right else wrong).append(file.name)
        if not wrong:
            LocalModel.inspect(path)
    except UserFixable as error:
        return VerifiedModel(problem=error.cause)
    except OSError as error:
        said = tr("It cannot be read to its end: {error}.")
        return VerifiedModel(problem=said.format(error=error.strerror or error))
    damage = _damage(wrong, copied=bool(ours))
    return VerifiedModel(tuple(compared), tuple(read), tuple(wrong), damage, bool(ours))


def _ours(path: Path, shelf: ModelShelf) -> dict[str, str]:
    """Return the hashes that a model's files had when they were copied."""
    for known in shelf.memory.all():
        if known.path == str(path):
            return dict(known.hashes)
    return {}


def _damage(wrong: Sequence[str], *, copied: bool) -> str:
    """Return the sentence for files that are not what they should be; "" where there are none."""
    if not wrong:
        return ""
    if copied:
        said = tr("Damaged since it was copied: {files}. Copy the model again.")
    elif len(wrong) > 1:
        said = tr("Damaged: {files} are not what was published. Download the model again.")
    else:
        said = tr("Damaged: {files} is not what was published. Download the model again.")
    return said.format(files=listed_words(wrong[:5]))
