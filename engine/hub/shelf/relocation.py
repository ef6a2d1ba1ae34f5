"""Bringing a model in, in place or as a copy, and moving it to another folder.

A copy appears whole or not at all, each of its files compared.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path

import psutil

from engine.errors import Cancelled, NotPossible, UserFixable
from engine.hub.download.cache import check_room, repository_of
from engine.hub.hashes import sha256_of
from engine.hub.remote.files import danger
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.other_programs import is_blob
from engine.hub.shelf.removal import ModelDeletion, delete, protect
from engine.hub.shelf.shelf import ModelShelf
from engine.language import tr
from engine.model.local_model import LocalModel
from engine.model.model_files import chosen_file, own_files, size_of

_PIECE = 4 << 20
_UNFINISHED = re.compile(r"\.copying-(\d+)-(\d+)-[0-9a-f]{8}", re.ASCII)


Tell = Callable[[float], None]
"""Hears how far long work is, from 0 to 1."""
Stopped = Callable[[], bool]


class BytesDone:
    """Counts the bytes of long work.

    Args:
        total: bytes in all.
        tell: hears how far it is.
        stopped: asked with every piece.
    """

    def __init__(self, total: int, tell: Tell, stopped: Stopped) -> None:
        self._done, self._total, self._tell, self._stopped = 0, max(total, 1), tell, stopped

    def add(self, nbytes: int) -> None:
        """Count a piece; raises `Cancelled` where `stopped` says so."""
        if self._stopped():
            raise Cancelled
        self._done += nbytes
        self._tell(self._done / self._total)


def copy_all(
    files: Mapping[str, Path], folder: Path, tell: Tell, stopped: Stopped
) -> dict[str, str]:
    """Copy files into a new folder, and compare what was written with what was read.

    Nothing is left behind where that does not succeed; what a killed program leaves behind goes
    with the next `clear_unfinished`.

    Args:
        files: names in the folder -> what is copied.
        folder: that is to be made; it is there when all is.

    Returns:
        The sha256 of each file by its name.

    Raises:
        Cancelled: `stopped` said so.
        UserFixable: no room, or a file cannot be read or written.
    """
    total = sum(file.stat().st_size for file in files.values())
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        check_room(folder.parent, total)
        part = folder.parent / _unfinished_name()
        part.mkdir()
    except OSError as error:
        raise UserFixable(
            tr("Nothing can be written to {folder}.").format(folder=folder.parent),
            tr("Make the folder writable for your user, or choose another one."),
            str(error),
        ) from error
    try:
        hashes = _copied(files, part, BytesDone(2 * total, tell, stopped))
        os.rename(part, folder)
    except OSError as error:
        raise UserFixable(
            tr("The model could not be copied."),
            tr("Check that the drives are connected, and that there is room."),
            str(error),
        ) from error
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return hashes


def clear_unfinished(folder: Path) -> None:
    """Delete what programs have left behind that were killed while they copied."""
    try:
        entries = list(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        match = _UNFINISHED.fullmatch(entry.name)
        if match is not None and not _runs(int(match[1]), int(match[2])):
            shutil.rmtree(entry, ignore_errors=True)


def _copied(files: Mapping[str, Path], part: Path, progress: BytesDone) -> dict[str, str]:
    hashes: dict[str, str] = {}
    for name, file in files.items():
        digest = hashlib.sha256()
        with file.open("rb") as source, (part / name).open("xb") as target:
            while piece := source.read(_PIECE):
                progress.add(len(piece))
                digest.update(piece)
                target.write(piece)
            target.flush()
            os.fsync(target.fileno())
        hashes[name] = digest.hexdigest()
    for name, wanted in hashes.items():
        if sha256_of(part / name, progress.add) != wanted:
            raise UserFixable(
                tr("{file} was copied wrongly: the disk did not keep what was written.").format(
                    file=name
                ),
                tr("Check the disk, or choose a folder on another one."),
                str(part),
            )
    return hashes


def _unfinished_name() -> str:
    """Return a name that tells this very process from a later one of the same number."""
    return f".copying-{os.getpid()}-{_started(os.getpid())}-{secrets.token_hex(4)}"


def _started(process: int) -> int:
    return int(psutil.Process(process).create_time())


def _runs(process: int, started: int) -> bool:
    with suppress(psutil.Error):
        return abs(_started(process) - started) <= 1
    return False


_MOST_NAME = 80
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]+')
"""Signs that some system has no files with."""


def meant(path: Path) -> Path:
    """Return the model that is meant by what was dropped: of a .safetensors file, its folder.

    Raises:
        UserFixable: there is none; of a folder with several, `SeveralModels`.
    """
    if path.suffix.lower() == ".safetensors" and path.is_file():
        path = path.parent
    path = path.absolute()
    LocalModel.inspect(path)
    return path


def import_in_place(path: Path, shelf: ModelShelf) -> KeptModel:
    """Remember a model where it lies.

    Raises:
        UserFixable: what keeps it from being used, or the list cannot be written.
    """
    model = shelf.describe(meant(path))
    if model.origin is ModelOrigin.IN_PLACE:
        shelf.keep(model)
    return model


def import_copy(
    path: Path, shelf: ModelShelf, tell: Tell, stopped: Stopped, name: str = ""
) -> KeptModel:
    """Copy a model into our own folder, compare the copy, and remember it.

    Args:
        path: of the model.
        shelf: that keeps the copy.
        tell: hears how far it is.
        stopped: asked between pieces.
        name: for the copy, where its own says nothing (Ollama's).

    Raises:
        Cancelled: `stopped` said so; nothing is left behind.
        UserFixable: what keeps it from being used or copied.
    """
    path = meant(path)
    known = shelf.describe(path)
    clear_unfinished(shelf.folder)
    file = chosen_file(path)
    title = _file_name(name or (file.stem if file else path.resolve().name) or known.name)
    folder = _free(shelf.folder, title)
    files = {_copy_name(each, title): each for each in own_files(path)}
    hashes = copy_all(files, folder, tell, stopped)
    only = next((folder / each for each in files if each.lower().endswith(".gguf")), folder)
    copied = replace(known, path=only if file is not None else folder, origin=ModelOrigin.COPIED)
    shelf.keep(copied, hashes)
    return shelf.describe(copied.path)


def _copy_name(file: Path, title: str) -> str:
    """Return a file's own name; Ollama's files are named by their hash only."""
    return f"{title}.gguf" if file.name.startswith("sha256-") else file.name


def _file_name(wanted: str) -> str:
    """Return a name that every system takes."""
    name = _FORBIDDEN.sub("-", wanted).strip(" .-")[:_MOST_NAME].strip(" .-")
    return f"model-{name}" if danger(name) else name


def _free(root: Path, name: str) -> Path:
    """Return a folder that is not there yet."""
    folders = (root / (name if number == 1 else f"{name} {number}") for number in count(1))
    return next(folder for folder in folders if not folder.exists())


def move(
    model: KeptModel,
    folder: Path,
    shelf: ModelShelf,
    tell: Tell,
    stopped: Stopped,
    in_use: Collection[Path] = (),
) -> KeptModel:
    """Move a model into `folder`, in a folder of its own, and remember where it is.

    A kill leaves the model where it was, or in both places: never in none.

    Args:
        model: as the shelf tells it.
        folder: where its new folder is made.
        shelf: that keeps it.
        tell: hears how far it is.
        stopped: asked between pieces.
        in_use: what is loaded, targets and drafts.

    Raises:
        Cancelled: `stopped` said so; the model is where it was.
        UserFixable: it is in use, it is not ours to move, or there is no room.
    """
    fixed = repository_of(model.path) is not None or is_blob(model.path)
    if fixed or model.origin not in (ModelOrigin.COPIED, ModelOrigin.IN_PLACE):
        raise NotPossible(
            tr("{model} cannot be moved: other programs look for it where it is.").format(
                model=model.name
            ),
            tr("Copy it into Duotail's own folder instead."),
        )
    protect(model.path, in_use)
    source = own_files(model.path)
    target = folder / _name(model)
    if target.exists():
        raise UserFixable(
            tr("There is already a folder {name} in {folder}.").format(
                name=target.name, folder=folder
            ),
            tr("Choose another folder."),
            str(target),
        )
    clear_unfinished(folder)
    hashes = copy_all({each.name: each for each in source}, target, tell, stopped)
    whole = model.path.is_dir()
    moved = replace(model, path=target if whole else target / model.path.name)
    shelf.keep(moved, hashes)
    ours = model.origin is ModelOrigin.COPIED
    own = (source[0].parent,) if whole or ours else ()
    delete(ModelDeletion(model.path, source, own, size_of(source)), shelf, in_use)
    return shelf.describe(moved.path)


def _name(model: KeptModel) -> str:
    """Return the name of the folder that a model moves into; a copy of ours has one already."""
    path = model.path
    if path.is_dir():
        return path.name
    return path.parent.name if model.origin is ModelOrigin.COPIED else path.stem
