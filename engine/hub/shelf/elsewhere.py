"""Models that other programs have already put on this disk."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.hub.shelf.hub_cache import cache_folder, cached_models
from engine.hub.shelf.lm_studio import lm_studio_models
from engine.hub.shelf.ollama import ollama_models
from engine.hub.shelf.searching import FoundModel, ShelfSearch


def found_elsewhere(
    search: ShelfSearch | None = None,
    home: Path | None = None,
    environment: Mapping[str, str] | None = None,
    cache: Path | None = None,
) -> list[FoundModel]:
    """All of LM Studio, Ollama and the hub's cache, each file once. Reads names, not weights.

    Args:
        search: how much may be looked at.
        home: the user's folder.
        environment: as of a process.
        cache: the hub's, where the settings name another one.
    """
    search = ShelfSearch() if search is None else search
    environment = os.environ if environment is None else environment
    found: dict[Path, FoundModel] = {}
    for model in _all(search, home or Path.home(), environment, cache):
        found.setdefault(_place(model.path), model)
    return list(found.values())


def _all(
    search: ShelfSearch, home: Path, environment: Mapping[str, str], cache: Path | None
) -> Iterator[FoundModel]:
    yield from cached_models(search, cache or cache_folder(home, environment))
    yield from lm_studio_models(search, home)
    yield from ollama_models(search, home, environment)


def _place(path: Path) -> Path:
    """Where a link leads: two programs may share a file."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path
