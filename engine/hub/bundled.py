"""The folder of the models and drafts that ship with Duotail."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr


def root() -> Path:
    """Where they are in this installation; nothing has been looked at."""
    folder = files("resources") / "models"
    if not isinstance(folder, Path):
        raise UserFixable(
            tr("Duotail was installed as a packed archive, which its models cannot be read from."),
            tr("Install it again with pipx, uv tool or one of the installers."),
            str(folder),
        )
    return folder
