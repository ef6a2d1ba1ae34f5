"""Names of models on this computer: the default one, the bundled ones, and paths."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import Absent, UserFixable
from engine.hub import starter
from engine.language import listed, tr
from engine.model import bundled
from engine.model.model_files import holds_model, models_in


def find_default(data: Path | None = None, cache: Path | None = None) -> Path | None:
    """Return the model that answers where none is named: the starter, if it is on this computer.

    DUOTAIL_DEFAULT_MODEL names another one, a folder or a GGUF file. For the arguments see
    `engine.hub.starter.starter_path`.
    """
    chosen = os.environ.get("DUOTAIL_DEFAULT_MODEL")
    return Path(chosen) if chosen else starter.starter_path(data, cache)


def default_target() -> Path:
    """Return the model that answers where none is named, see `find_default`.

    Raises:
        Absent: it is not on this computer.
    """
    found = find_default()
    if found is None:
        raise Absent(
            tr("The starter model, {name}, is not on this computer.").format(name=starter.NAME),
            tr("Open Duotail, which offers to download it, or name another model."),
            str(bundled.starter_folder()),
        )
    return found


def bundled_models() -> dict[str, Path]:
    """Return the bundled models by name, with what to open of each: a GGUF file or a folder."""
    root = bundled.root()
    folders = sorted(entry for entry in root.iterdir() if entry.is_dir()) if root.is_dir() else []
    return {
        folder.name: folder if (folder / "config.json").exists() else models_in(folder)[0]
        for folder in folders
        if holds_model(folder)
    }


def resolve_model(name_or_path: str | None) -> Path:
    """Return the path of a bundled name, a folder or a file; None: the default model.

    A folder wins over a bundled model of the same name only when written as a path (`./name`).
    Raises `UserFixable` when there is no such model.
    """
    if name_or_path is None:
        return default_target()
    if found := bundled_models().get(name_or_path):
        return found
    try:
        path = Path(name_or_path).expanduser()
        if name_or_path and path.is_dir():
            return path.resolve()
        if name_or_path and path.exists():
            return path.absolute()  # where a link leads, a file may have another name
    except (OSError, ValueError, RuntimeError) as error:
        raise _no_such_model(name_or_path) from error
    raise _no_such_model(name_or_path)


def _no_such_model(name: str) -> UserFixable:
    names = bundled_models()
    other = tr("Name a folder or a GGUF file, or one of the bundled models: {names}.")
    return UserFixable(
        tr("There is no model “{name}”.").format(name=name[:200]),
        other.format(names=listed(names)) if names else tr("Name a folder or a GGUF file."),
    )
