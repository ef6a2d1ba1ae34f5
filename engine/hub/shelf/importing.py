"""Bringing a model in: it stays where it is, or is copied into our own folder."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.shelf.copying import Stopped, Tell, clear_unfinished, copy_all
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.shelf import Shelf
from engine.language import tr
from engine.model.local_model import LocalModel
from engine.model.model_files import chosen_file, own_files

_MOST_NAME = 80
_FORBIDDEN = re.compile(r'[\x00-\x1f<>:"/\\|?*]+')
"""Signs that some system has no files with."""
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


def meant(path: Path) -> Path:
    """The model that is meant by what was dropped: of a .safetensors file, its folder.

    Raises:
        UserFixable: there is none; of a folder with several, `SeveralModels`.
    """
    if path.suffix.lower() == ".safetensors" and path.is_file():
        path = path.parent
    path = path.absolute()
    LocalModel.inspect(path)
    return path


def import_in_place(path: Path, shelf: Shelf) -> KeptModel:
    """Remember a model where it lies.

    Raises:
        UserFixable: what keeps it from being used, or the list cannot be written.
    """
    model = shelf.describe(meant(path))
    if model.origin is ModelOrigin.IN_PLACE:
        shelf.keep(model)
    return model


def import_copy(
    path: Path, shelf: Shelf, tell: Tell, stopped: Stopped, name: str = ""
) -> KeptModel:
    """Copy a model into our own folder, compare the copy, and remember it.

    Args:
        path: of the model; `name`: for the copy, where its own says nothing (Ollama's).

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
    """Its own; a file of Ollama's is named by its hash only."""
    return f"{title}.gguf" if file.name.startswith("sha256-") else file.name


def _file_name(wanted: str) -> str:
    """A name that every system takes."""
    name = _FORBIDDEN.sub("-", wanted).strip(" .-")[:_MOST_NAME].strip(" .-")
    return f"model-{name}" if not name or _RESERVED.fullmatch(name) else name


def _free(root: Path, name: str) -> Path:
    """A folder that is not there yet."""
    for number in range(1, 1000):
        folder = root / (name if number == 1 else f"{name} {number}")
        if not folder.exists():
            return folder
    raise UserFixable(
        tr("There are too many models called “{name}”.").format(name=name),
        tr("Delete some of them first."),
        str(root),
    )
