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
from engine.hub.shelf.other_programs import is_blob
from engine.hub.shelf.shelf import Shelf
from engine.language import tr
from engine.model.model_files import chosen_file, own_files


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


_WEIGHTS = (".gguf", ".safetensors")
_DAY = 24 * 60 * 60

Removal = tuple[tuple[Path, ...], tuple[Path, ...], int]
"""Files in the order of deletion, folders that may be empty then, bytes."""


def removal(path: Path) -> Removal:
    """Files, folders and bytes of a model whose path lies in a snapshot.

    The last weights of a snapshot take it with them, the last snapshot of a repository takes the
    repository. A blob stays as long as a link of another model or of another revision leads to it.

    Raises:
        UserFixable, OSError: what is there cannot be read.
    """
    repository, snapshot = repository_of(path), snapshot_of(path)
    if repository is None or snapshot is None:
        raise ValueError(path)
    inside = list(_files(snapshot))
    if chosen_file(path) is not None:
        own = [file for file in own_files(path) if snapshot in file.parents]
        if not set(filter(_answers, inside)) <= set(
            own
        ):  # another quantisation needs what lies beside it
            return _counted(own, repository, snapshot, whole=False)
    return _counted(inside, repository, snapshot, whole=True)


def _counted(links: list[Path], repository: Path, snapshot: Path, *, whole: bool) -> Removal:
    """The links, and the blobs that only they lead to."""
    gone = set(links)
    needed = {
        _blob(file)
        for file in _files(repository / "snapshots")
        if file not in gone and file.is_symlink()
    }
    blobs_folder = (repository / "blobs").resolve()
    blobs = {_blob(file) for file in links if file.is_symlink()} - needed
    blobs = {blob for blob in blobs if blob.parent == blobs_folder and blob.is_file()}
    copies = [file for file in links if not file.is_symlink()]
    nbytes = sum(file.lstat().st_size for file in (*blobs, *copies) if not file.is_symlink())
    folders = sorted({file.parent for file in links}, key=lambda each: -len(each.parts))
    refs: list[Path] = []
    if whole:
        refs = _refs_to(repository, snapshot.name)
        last = not any(
            each != snapshot for each in (repository / "snapshots").iterdir() if each.is_dir()
        )
        folders += [snapshot]
        if last:
            unfinished = [each for each in blobs_folder.glob("*.incomplete") if _abandoned(each)]
            nbytes += sum(each.stat().st_size for each in unfinished)
            blobs |= set(unfinished)
            missing = list(_files(repository / ".no_exist"))
            refs += missing
            folders += [*_folders(repository), repository]
    files = (*refs, *links, *sorted(blobs))
    return files, tuple(dict.fromkeys(folders)), nbytes


def _answers(file: Path) -> bool:
    """Whether this is weights of a model; what only sees pictures goes with the last one."""
    name = file.name.lower()
    return name.endswith(_WEIGHTS) and not name.startswith("mmproj")


def _abandoned(unfinished: Path) -> bool:
    """Whether nobody has gone on with a download for a day."""
    return unfinished.is_file() and time() - unfinished.stat().st_mtime > _DAY


def _blob(link: Path) -> Path:
    """Where a link leads, whether something is there or not; no further than one step."""
    return Path(os.path.normpath(link.parent.resolve() / os.readlink(link)))


def _refs_to(repository: Path, commit: str) -> list[Path]:
    """The names that a commit has."""
    return [file for file in _files(repository / "refs") if _text(file) == commit]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _files(folder: Path) -> Iterator[Path]:
    """All files and links in a folder; links to folders are not followed."""
    for root, _, names in os.walk(folder):
        yield from (Path(root) / name for name in sorted(names))


def _folders(folder: Path) -> list[Path]:
    """The folders in a folder, inner ones first."""
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
                tr("Load another model first, or take this one out of memory."),
                str(path),
            )


def _places(path: Path) -> set[Path]:
    """Where its files really lie; the path too, should nothing be there any more."""
    places = {_resolved(path)}
    with suppress(OSError, UserFixable):
        places |= {_resolved(file) for file in own_files(path)}
    return places


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()
