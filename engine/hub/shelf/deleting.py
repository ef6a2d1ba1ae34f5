"""Deleting a model: exactly its own files, told beforehand, and nothing that another one needs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import NotPossible, UserFixable
from engine.hub.shelf.cache_removal import removal
from engine.hub.shelf.hub_cache import repository_of
from engine.hub.shelf.in_use import protect
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.ollama import is_blob
from engine.hub.shelf.shelf import Shelf
from engine.language import tr
from engine.model.model_files import own_files


@dataclass(frozen=True, slots=True)
class ModelDeletion:
    """What deleting a model would do; nothing is done yet.

    Attributes:
        files: that are deleted, links before what they lead to; none: it is only forgotten.
        folders: that are deleted after them if they are empty then, inner ones first.
        nbytes: that the disk gets back.
    """

    path: Path
    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    nbytes: int = 0

    @property
    def forgets_only(self) -> bool:
        """Whether its files stay where they are."""
        return not self.files


def deletion(model: KeptModel, shelf: Shelf, *, files: bool = False) -> ModelDeletion:
    """What deleting a model comes to.

    Args:
        model: as the shelf tells it.
        files: also those of a model that is not in a folder of ours nor in the hub's cache: it is
            the user's own, and is only forgotten unless asked for.

    Raises:
        UserFixable: it is not ours to delete.
    """
    path = model.path
    foreign = model.origin in (ModelOrigin.BUNDLED, ModelOrigin.OLLAMA, ModelOrigin.LM_STUDIO)
    if foreign or (files and is_blob(path)):
        raise _not_ours(model)
    ours = model.origin is ModelOrigin.COPIED
    if not path.exists() or not (ours or files or model.origin is not ModelOrigin.IN_PLACE):
        return ModelDeletion(path)  # somebody has deleted it already, or it is the user's own
    try:
        if repository_of(path) is not None:
            return ModelDeletion(path, *removal(path))
        own = own_files(path)
    except (OSError, UserFixable) as error:
        if ours:
            return _broken(path, shelf)
        raise UserFixable(
            tr("It cannot be told which files {model} consists of.").format(model=model.name),
            tr("Delete its files yourself."),
            str(error),
        ) from error
    folder = own[0].parent
    alone = (ours or path.is_dir()) and folder != shelf.folder
    return ModelDeletion(path, own, (folder,) if alone else (), _bytes(own))


def delete(found: ModelDeletion, shelf: Shelf, in_use: Collection[Path] = ()) -> int:
    """Do it; the bytes that were deleted.

    Args:
        in_use: what is loaded, targets and drafts.

    Raises:
        UserFixable: the model is in use, or a file cannot be deleted.
    """
    if not found.forgets_only:
        protect(found.path, in_use)
    freed = 0
    for file in found.files:
        freed += _unlinked(file)
    for folder in found.folders:
        _removed_if_empty(folder)
    shelf.memory.forget(found.path)
    return freed


def _broken(path: Path, shelf: Shelf) -> ModelDeletion:
    """Of a model in our own folder that cannot be read, all that is there."""
    folder = path if path.is_dir() else path.parent
    if shelf.folder.resolve() != folder.resolve().parent:
        return ModelDeletion(path)
    files = tuple(entry for entry in sorted(folder.iterdir()) if not entry.is_dir())
    return ModelDeletion(path, files, (folder,), _bytes(files))


def _bytes(files: Iterable[Path]) -> int:
    """What the disk gets back: nothing for a link."""
    return sum(0 if file.is_symlink() else file.lstat().st_size for file in files)


def _unlinked(file: Path) -> int:
    try:
        nbytes = 0 if file.is_symlink() else file.lstat().st_size
        file.unlink()
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise UserFixable(
            tr("{file} could not be deleted.").format(file=file.name),
            tr("Close the programs that use it, and check that you may write to its folder."),
            str(error),
        ) from error
    return nbytes


def _removed_if_empty(folder: Path) -> None:
    with suppress(OSError):  # there is something else in it
        folder.rmdir()


def _not_ours(model: KeptModel) -> UserFixable:
    if model.origin is ModelOrigin.BUNDLED:
        return NotPossible(
            tr("{model} comes with Duotail and cannot be deleted.").format(model=model.name),
            tr("It takes only a few megabytes."),
        )
    if model.origin is ModelOrigin.OLLAMA or is_blob(model.path):
        return NotPossible(
            tr("{model} belongs to Ollama.").format(model=model.name),
            tr("Delete it there, with “ollama rm” and its name."),
        )
    return NotPossible(
        tr("{model} belongs to LM Studio.").format(model=model.name),
        tr("Delete it there, in the list of its models."),
    )
