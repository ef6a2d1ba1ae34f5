"""Deleting a model: exactly its own files, told beforehand, and nothing that another one needs."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import time

from engine.errors import NotPossible, UserFixable
from engine.hub.download.cache import repository_of, snapshot_of
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.other_programs import beginning, is_blob
from engine.hub.shelf.shelf import ModelShelf
from engine.language import tr
from engine.model.model_files import chosen_file, own_files, real_path

_WEIGHTS = (".gguf", ".safetensors")
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class ModelDeletion:
    """Effects of deleting a model; nothing is done yet.

    Attributes:
        files: that are deleted, links before what they lead to.
        folders: that are deleted after them if they are empty then, inner ones first.
        nbytes: that the disk gets back.
    """

    path: Path
    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    nbytes: int = 0


def deletion(model: KeptModel, shelf: ModelShelf) -> ModelDeletion:
    """Return what deleting a model of a shelf comes to.

    Raises:
        UserFixable: it is not ours to delete.
    """
    path = model.path
    foreign = model.origin in (ModelOrigin.BUNDLED, ModelOrigin.OLLAMA, ModelOrigin.LM_STUDIO)
    if foreign or is_blob(path):
        raise _not_ours(model)
    ours = model.origin is ModelOrigin.COPIED
    if not path.exists():
        return ModelDeletion(path)  # somebody has deleted it already
    try:
        repository, snapshot = repository_of(path), snapshot_of(path)
        if repository is not None and snapshot is not None:
            return _cached(path, repository, snapshot)
        own = own_files(path)
    except (OSError, UserFixable) as error:
        if ours:
            return _broken(path, shelf)
        raise UserFixable(
            tr("Duotail cannot tell which files belong to {model}.").format(model=model.name),
            tr("Delete its files yourself."),
            str(error),
        ) from error
    folder = own[0].parent
    alone = (ours or path.is_dir()) and folder != shelf.folder
    return ModelDeletion(path, own, (folder,) if alone else (), _bytes(own))


def delete(found: ModelDeletion, shelf: ModelShelf, in_use: Collection[Path] = ()) -> int:
    """Delete a model; return the bytes that the disk got back.

    Args:
        found: what is deleted, as `deletion` tells it.
        shelf: that forgets the model.
        in_use: what is loaded, targets and drafts.

    Raises:
        UserFixable: the model is in use, or a file cannot be deleted.
    """
    if found.files:
        protect(found.path, in_use)
    freed = sum(_unlinked(file) for file in found.files)
    for folder in found.folders:
        with suppress(OSError):  # there is something else in it
            folder.rmdir()
    shelf.memory.forget(found.path)
    return freed


def _broken(path: Path, shelf: ModelShelf) -> ModelDeletion:
    """Return the deletion of all that is there of a model of ours that cannot be read."""
    folder = path if path.is_dir() else path.parent
    if shelf.folder.resolve() != folder.resolve().parent:
        return ModelDeletion(path)
    files = tuple(entry for entry in sorted(folder.iterdir()) if not entry.is_dir())
    return ModelDeletion(path, files, (folder,), _bytes(files))


def _bytes(files: Iterable[Path]) -> int:
    """Return what the disk gets back: nothing for a link."""
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


def _cached(path: Path, repository: Path, snapshot: Path) -> ModelDeletion:
    """Return what deleting a model from the shared cache comes to.

    The last weights of a snapshot take it with them, the last snapshot of a repository takes the
    repository. A blob stays as long as a link of another model or of another revision leads to it.
    The library's own `delete_revisions` knows whole revisions only, and follows links anywhere.

    Args:
        path: of the model, in the snapshot.
        repository: its folder in the cache.
        snapshot: the folder of its revision.

    Raises:
        UserFixable, OSError: what is there cannot be read.
    """
    links, whole = list(_files(snapshot)), True
    if chosen_file(path) is not None:
        own = [file for file in own_files(path) if snapshot in file.parents]
        if not set(filter(_answers, links)) <= set(own):
            links, whole = own, False  # another quantisation needs what lies beside it
    snapshots, blobs_folder = repository / "snapshots", (repository / "blobs").resolve()
    others = set(_files(snapshots)) - set(links)
    needed = {_blob(file) for file in others if file.is_symlink()}
    blobs = {_blob(file) for file in links if file.is_symlink()} - needed
    blobs = {blob for blob in blobs if blob.parent == blobs_folder and blob.is_file()}
    folders = sorted({file.parent for file in links}, key=lambda each: -len(each.parts))
    notes: list[Path] = []
    if whole:
        notes = [
            file
            for file in _files(repository / "refs")
            if beginning(file, 64).strip() == snapshot.name
        ]
        folders += [snapshot]
        if not any(each != snapshot for each in snapshots.iterdir() if each.is_dir()):
            blobs |= set(filter(_abandoned, blobs_folder.glob("*.incomplete")))
            notes += _files(repository / ".no_exist")
            folders += [*_folders(repository), repository]
    return ModelDeletion(
        path,
        (*notes, *links, *sorted(blobs)),
        tuple(dict.fromkeys(folders)),
        _bytes((*links, *blobs)),
    )


def _answers(file: Path) -> bool:
    """Return whether a file is weights of a model; what only sees pictures goes with the last."""
    name = file.name.lower()
    return name.endswith(_WEIGHTS) and not name.startswith("mmproj")


def _abandoned(unfinished: Path) -> bool:
    """Return whether nobody has gone on with a download for a day."""
    return unfinished.is_file() and time() - unfinished.stat().st_mtime > _DAY


def _blob(link: Path) -> Path:
    """Return where a link leads in one step, whether something is there or not."""
    return Path(os.path.normpath(link.parent.resolve() / os.readlink(link)))


def _files(folder: Path) -> Iterator[Path]:
    """Yield all files and links in a folder; links to folders are not followed."""
    for root, _, names in os.walk(folder):
        yield from (Path(root) / name for name in sorted(names))


def _folders(folder: Path) -> list[Path]:
    """Return the folders in a folder, inner ones first."""
    return [Path(root) for root, _, _ in os.walk(folder, topdown=False) if Path(root) != folder]


def protect(path: Path, in_use: Iterable[Path]) -> None:
    """Refuse to touch a model whose files are among those that are loaded.

    Args:
        path: of the model.
        in_use: what is loaded, targets and drafts.

    Raises:
        UserFixable: it is in use.
    """
    touched = _places(path)
    for loaded in in_use:
        if touched & _places(loaded):
            raise UserFixable(
                tr("{model} is in use.").format(model=path.name),
                tr("Load another model first, or unload this one."),
                str(path),
            )


def _places(path: Path) -> set[Path]:
    """Return where a model's files really lie; the path too, should nothing be there any more."""
    places = {real_path(path)}
    with suppress(OSError, UserFixable):
        places |= {real_path(file) for file in own_files(path)}
    return places
