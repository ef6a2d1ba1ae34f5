"""A model in use is not touched."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from engine.errors import UserFixable
from engine.language import tr
from engine.model.model_files import own_files


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
