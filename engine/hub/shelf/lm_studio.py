"""The models that LM Studio keeps: PUBLISHER/REPOSITORY/files, in a folder that can be chosen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.searching import FoundModel, ShelfSearch
from engine.model.json_object import JsonObject

_HOMES = (".lmstudio", ".cache/lm-studio")
"""The newer one first."""
_POINTER = ".lmstudio-home-pointer"
_DEPTH = 3
_MOST_POINTER = 4096


def lm_studio_models(search: ShelfSearch, home: Path) -> Iterator[FoundModel]:
    """All of them; `home`: the user's folder."""
    for root in _roots(home):
        for path in search.models_below(root, _DEPTH):
            yield FoundModel(path, ModelOrigin.LM_STUDIO, repo=_repo(root, path))


def _roots(home: Path) -> list[Path]:
    """Where models lie, by its settings and by custom."""
    homes = [home / name for name in _HOMES]
    pointed = _pointed(home / _POINTER)
    if pointed is not None:
        homes.insert(0, pointed)
    chosen = [_chosen(folder / "settings.json") for folder in homes]
    roots = [root for root in chosen if root is not None]
    roots += [folder / "models" for folder in homes]
    return list(dict.fromkeys(roots))


def _pointed(file: Path) -> Path | None:
    """A file that holds nothing but the path of another home."""
    try:
        with file.open(encoding="utf-8") as stream:
            written = stream.read(_MOST_POINTER).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return _absolute(written)


def _chosen(settings: Path) -> Path | None:
    try:
        return _absolute(JsonObject.read_optional(settings).text("downloadsFolder") or "")
    except (UserFixable, OSError):
        return None


def _absolute(written: str) -> Path | None:
    path = Path(written)
    return path if written and "\0" not in written and path.is_absolute() else None


def _repo(root: Path, path: Path) -> str | None:
    """PUBLISHER/REPOSITORY, which are the hub's names."""
    parts = path.relative_to(root).parts
    return "/".join(parts[:2]) if len(parts) >= 2 else None
