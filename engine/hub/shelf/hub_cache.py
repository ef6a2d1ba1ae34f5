"""The cache that all programs share which use the Hugging Face hub: what models it holds.

REPOSITORY/snapshots/COMMIT holds links to REPOSITORY/blobs/HASH (copies, where there are no links).
The hub's own library is not needed to read it, and would bring all of its network along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from engine.errors import UserFixable
from engine.hub.shelf.kept_model import ModelOrigin
from engine.hub.shelf.searching import FoundModel, ShelfSearch
from engine.model.json_object import JsonObject

_PREFIX = "models--"
_COMMIT = re.compile(r"[0-9a-f]{40}", re.ASCII)
_DEPTH = 2
_WRITES = ("CausalLM", "ConditionalGeneration", "LMHeadModel", "Eagle", "Speculator", "DraftHead")
"""Parts of the names of what can chat or draft; there are models of much else in that cache."""


def cache_folder(home: Path, environment: Mapping[str, str]) -> Path:
    """Where it is, by the same rules as the hub's library has."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return _expanded(environment[name], home)
    if environment.get("HF_HOME"):
        return _expanded(environment["HF_HOME"], home) / "hub"
    caches = environment.get("XDG_CACHE_HOME")
    return (_expanded(caches, home) if caches else home / ".cache") / "huggingface" / "hub"


def cached_models(search: ShelfSearch, cache: Path) -> Iterator[FoundModel]:
    """All that look as if they could chat or draft; of several revisions the newest known one."""
    for repository in search.folders_in(cache):
        if not repository.name.startswith(_PREFIX):
            continue
        name = repository.name.removeprefix(_PREFIX).replace("--", "/", 1)
        current = _current(repository)
        snapshots = [
            each
            for each in search.folders_in(repository / "snapshots")
            if _COMMIT.fullmatch(each.name)
        ]
        known: set[Path] = set()
        for snapshot in sorted(snapshots, key=lambda each: each.name != current):
            for path in search.models_below(snapshot, _DEPTH):
                place = path.relative_to(snapshot)
                if place in known or not _writes(path):
                    continue
                known.add(place)
                yield FoundModel(path, ModelOrigin.CACHE, repo=name, revision=snapshot.name)


def repository_of(path: Path) -> Path | None:
    """The repository's folder in the cache that a model's path lies in."""
    parents = [path, *path.parents]
    for at, folder in enumerate(parents):
        inside = len(parents) > at + 2 and _COMMIT.fullmatch(folder.name)
        if inside and folder.parent.name == "snapshots":
            found = parents[at + 2]
            return found if found.name.startswith(_PREFIX) else None
    return None


def snapshot_of(path: Path) -> Path | None:
    """The folder of the revision that a model's path lies in."""
    repository = repository_of(path)
    if repository is None:
        return None
    return repository / "snapshots" / path.relative_to(repository / "snapshots").parts[0]


def _current(repository: Path) -> str:
    """The commit that the main branch was at."""
    try:
        with (repository / "refs" / "main").open(encoding="ascii") as stream:
            return stream.read(64).strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _writes(path: Path) -> bool:
    """Whether a folder's config is that of a model that writes text; of GGUF files, always."""
    if not path.is_dir():
        return True
    try:
        names = JsonObject.read(path / "config.json").items("architectures")
    except (UserFixable, OSError):
        return True  # whoever lists it says what is wrong
    return not names or any(part in str(name) for name in names for part in _WRITES)


def _expanded(written: str, home: Path) -> Path:
    if written == "~" or written.startswith("~/"):
        return home / written[2:]
    return Path(written).absolute()
