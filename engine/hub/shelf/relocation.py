"""Bringing a model in, in place or as a copy, and moving it to another folder."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from engine.errors import NotPossible, UserFixable
from engine.hub.download.cache import repository_of
from engine.hub.remote.safe_files import danger
from engine.hub.shelf.copies import Stopped, Tell, clear_unfinished, copy_all
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.other_programs import is_blob
from engine.hub.shelf.removal import ModelDeletion, delete, protect
from engine.hub.shelf.shelf import ModelShelf
from engine.language import tr
from engine.model.local_model import LocalModel
from engine.model.model_files import chosen_file, own_files, size_of

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
        tell: hears how many bytes are copied and read again.
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
    for number in range(1, 1000):
        folder = root / (name if number == 1 else f"{name} {number}")
        if not folder.exists():
            return folder
    raise UserFixable(
        tr("There are too many models called “{name}”.").format(name=name),
        tr("Delete some of them first."),
        str(root),
    )


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
        tell: hears how many bytes are copied and read again.
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
