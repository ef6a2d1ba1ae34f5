"""Models by their names, the same everywhere: in lists, on the command line, in requests."""

from __future__ import annotations

from pathlib import Path

from engine.errors import UserFixable
from engine.hub.local import resolve_model
from engine.hub.shelf.kept_model import names_of
from engine.hub.shelf.shelf import ModelShelf
from engine.hub.starter import user_data
from engine.language import listed, tr


def model_named(name: str | None, data: Path | None = None) -> Path:
    """Return the path of a model: by path, bundled name, or any name of one on this computer.

    Args:
        name: None: the default model.
        data: the user's data folder; None: the usual one.

    Raises:
        UserFixable: there is none, or several.
    """
    try:
        return resolve_model(name)
    except UserFixable:
        if not name or "\0" in name:
            raise
        asked = name.casefold()
        models = [each for each in ModelShelf(data or user_data()).models() if not each.problem]
        found = [each for each in models if asked in names_of(each.name, each.path, each.repo)]
        found = [each for each in found if each.name.casefold() == asked] or found
        if not found:
            raise
        if len(found) > 1:
            raise UserFixable(
                tr("Several models are called “{name}”.").format(name=name[:200]),
                tr("Name one of these files: {files}.").format(
                    files=listed(str(each.path) for each in found)
                ),
            ) from None
        return found[0].path
