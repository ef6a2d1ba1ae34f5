"""Moving a model to another folder: copied, compared, and only then deleted where it was."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from engine.errors import NotPossible, UserFixable
from engine.hub.shelf.copying import Stopped, Tell, clear_unfinished, copy_all
from engine.hub.shelf.deleting import ModelDeletion, delete
from engine.hub.shelf.hub_cache import repository_of
from engine.hub.shelf.in_use import protect
from engine.hub.shelf.kept_model import KeptModel, ModelOrigin
from engine.hub.shelf.ollama import is_blob
from engine.hub.shelf.shelf import Shelf
from engine.language import tr
from engine.model.model_files import own_files, size_of


def move(
    model: KeptModel,
    folder: Path,
    shelf: Shelf,
    tell: Tell,
    stopped: Stopped,
    in_use: Collection[Path] = (),
) -> KeptModel:
    """Move a model into `folder`, in a folder of its own, and remember where it is.

    A kill leaves the model where it was, or in both places: never in none.

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
    """Of the folder that it gets; a copy of ours has one already."""
    path = model.path
    if path.is_dir():
        return path.name
    return path.parent.name if model.origin is ModelOrigin.COPIED else path.stem
