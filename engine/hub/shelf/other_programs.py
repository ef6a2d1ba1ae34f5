"""Models that other programs have already put on this disk.

Folders that are not ours are looked at within bounds of time, depth and number.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from time import monotonic

from engine.errors import UserFixable
from engine.hub.download.cache import PREFIX, cache_folder
from engine.hub.hashes import is_ollama_blob
from engine.hub.remote.files import is_commit
from engine.hub.shelf.kept_model import ModelOrigin
from engine.model.json_object import JsonObject
from engine.model.model_files import PACKED, models_in, real_path

_SAFETENSORS = ".safetensors"
_CONFIG = "config.json"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A path that looks like a model; nothing of it was read.

    Attributes:
        path: a folder or a GGUF file.
        name: as the other program calls it; "" where it does not.
        licence: as the other program knows it.
    """

    path: Path
    origin: ModelOrigin
    name: str = ""
    repo: str | None = None
    revision: str | None = None
    licence: str = ""


@dataclass(slots=True)
class ShelfSearch:
    """Limits of a search on disk, shared by all that take part.

    Attributes:
        seconds: after which what was found must do.
        folders: at most, all together.
    """

    seconds: float = 5.0
    folders: int = 20_000
    _started: float = field(default_factory=monotonic)
    _looked: int = 0
    _seen: set[tuple[int, int]] = field(default_factory=set)

    def models_below(self, root: Path, depth: int) -> Iterator[Path]:
        """Yield every model in a folder and those in it: GGUF files, folders of safetensors.

        Links are followed, but no folder is looked at twice; unreadable ones are passed over.
        """
        names = self._names(root)
        if names is None:
            return
        if any(name.lower().endswith(".gguf") for name in names):
            yield from _readable_models(root)
        if _CONFIG in names and any(name.endswith((_SAFETENSORS, PACKED)) for name in names):
            yield root
        if depth <= 0:
            return
        for name in names:
            below = root / name
            if not name.startswith(".") and _is_folder(below):
                yield from self.models_below(below, depth - 1)

    def folders_in(self, root: Path) -> list[Path]:
        """Return the folders in a folder, by name; none where it cannot be read."""
        return [root / name for name in self._names(root) or () if _is_folder(root / name)]

    def files_below(self, root: Path, depth: int) -> Iterator[Path]:
        """Yield every file in a folder and those in it."""
        for name in self._names(root) or ():
            below = root / name
            if not _is_folder(below):
                yield below
            elif depth > 0:
                yield from self.files_below(below, depth - 1)

    def _names(self, folder: Path) -> list[str] | None:
        """Return what a folder holds; None where it was seen before, or there is no time left."""
        if self._looked >= self.folders or monotonic() - self._started > self.seconds:
            return None
        try:
            stat = folder.stat()
            if (stat.st_dev, stat.st_ino) in self._seen:
                return None
            names = sorted(os.listdir(folder))
        except (OSError, ValueError):
            return None
        self._looked += 1
        if stat.st_ino:  # some systems do not number files
            self._seen.add((stat.st_dev, stat.st_ino))
        return names


def beginning(file: Path, most: int) -> str:
    """Return the first characters of a text file; "" where it cannot be read."""
    try:
        with file.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(most)
    except (OSError, ValueError):
        return ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def _readable_models(folder: Path) -> tuple[Path, ...]:
    try:
        return models_in(folder)
    except OSError:
        return ()


def found_elsewhere(
    cache: Path | None = None, search: ShelfSearch | None = None
) -> list[FoundModel]:
    """Return all models of LM Studio, Ollama and the hub's cache, each file once.

    Reads names, not weights.

    Args:
        cache: the hub's, where the settings name another one.
        search: how much may be looked at.
    """
    search = ShelfSearch() if search is None else search
    models = chain(
        cached_models(search, cache or cache_folder()),
        lm_studio_models(search),
        ollama_models(search),
    )
    found: dict[Path, FoundModel] = {}
    for model in models:
        found.setdefault(real_path(model.path), model)
    return list(found.values())


_HOMES = (".lmstudio", ".cache/lm-studio")
"""The newer one first."""
_POINTER = ".lmstudio-home-pointer"
"""A file that holds nothing but the path of another home."""
_LM_STUDIO_DEPTH = 3
_MOST_POINTER = 4096


def lm_studio_models(search: ShelfSearch) -> Iterator[FoundModel]:
    """Yield all of them."""
    for root in _lm_studio_roots(Path.home()):
        for path in search.models_below(root, _LM_STUDIO_DEPTH):
            yield FoundModel(path, ModelOrigin.LM_STUDIO, repo=_repo(root, path))


def _lm_studio_roots(home: Path) -> list[Path]:
    """Return where models lie, by its settings and by custom."""
    homes = [home / name for name in _HOMES]
    pointed = _absolute(beginning(home / _POINTER, _MOST_POINTER).strip())
    if pointed is not None:
        homes.insert(0, pointed)
    chosen = [_chosen(folder / "settings.json") for folder in homes]
    roots = [root for root in chosen if root is not None]
    roots += [folder / "models" for folder in homes]
    return list(dict.fromkeys(roots))


def _chosen(settings: Path) -> Path | None:
    try:
        return _absolute(JsonObject.read_optional(settings).text("downloadsFolder") or "")
    except (UserFixable, OSError):
        return None


def _absolute(written: str) -> Path | None:
    path = Path(written)
    return path if written and "\0" not in written and path.is_absolute() else None


def _repo(root: Path, path: Path) -> str | None:
    """Return PUBLISHER/REPOSITORY, which are the hub's names."""
    parts = path.relative_to(root).parts
    return "/".join(parts[:2]) if len(parts) >= 2 else None


_MODEL, _LICENCE = (f"application/vnd.ollama.image.{what}" for what in ("model", "license"))
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})", re.ASCII)
_USUAL = "registry.ollama.ai"
_LIBRARY = "library"
_OLLAMA_DEPTH = 4
_MOST_MANIFEST = 1 << 20
_SERVICE = Path("/usr/share/ollama/.ollama/models")
"""Folder of Ollama's models on Linux when it runs as a service."""


def ollama_models(search: ShelfSearch) -> Iterator[FoundModel]:
    """Yield all whose weights are one GGUF file."""
    for root in _ollama_roots():
        manifests = root / "manifests"
        for manifest in search.files_below(manifests, _OLLAMA_DEPTH):
            found = _read(root, manifests, manifest)
            if found is not None:
                yield found


def is_blob(path: Path) -> bool:
    """Return whether a file is Ollama's own, which its manifests name by their hash."""
    return path.parent.name == "blobs" and is_ollama_blob(path)


def _ollama_roots() -> list[Path]:
    chosen = _absolute(os.environ.get("OLLAMA_MODELS", ""))
    return [Path.home() / ".ollama" / "models", _SERVICE] if chosen is None else [chosen]


def _read(root: Path, manifests: Path, manifest: Path) -> FoundModel | None:
    """Return the model of one manifest; None where it is none, or its weights are not here."""
    try:
        layers = JsonObject.read(manifest, max_bytes=_MOST_MANIFEST).items("layers")
    except (UserFixable, OSError):
        return None
    weights = _blob(root, layers, _MODEL)
    if weights is None:
        return None
    return FoundModel(
        weights,
        ModelOrigin.OLLAMA,
        name=_name(manifest.relative_to(manifests).parts),
        licence=_first_line(_blob(root, layers, _LICENCE)),
    )


def _blob(root: Path, layers: tuple[object, ...], kind: str) -> Path | None:
    for layer in layers:
        if not isinstance(layer, dict) or layer.get("mediaType") != kind:
            continue
        match = _DIGEST.fullmatch(str(layer.get("digest")))
        file = root / "blobs" / f"sha256-{match[1]}" if match else None
        try:
            return file if file is not None and file.is_file() else None
        except OSError:
            return None
    return None


def _name(parts: tuple[str, ...]) -> str:
    """Return a name as `ollama list` writes it, without what goes without saying."""
    *before, model, tag = parts if len(parts) > 1 else ("", *parts)
    if before[:1] == [_USUAL]:
        before = before[1:]
    if before == [_LIBRARY]:
        before = []
    return "/".join([*before, f"{model}:{tag}"])


def _first_line(file: Path | None) -> str:
    lines = beginning(file, 2000).splitlines() if file is not None else ()
    return next((line.strip()[:80] for line in lines if line.strip()), "")


_CACHE_DEPTH = 2
_WRITES = ("CausalLM", "ConditionalGeneration", "LMHeadModel", "Eagle", "Speculator", "DraftHead")
"""Parts of the names of what can chat or draft; there are models of much else in that cache."""


def cached_models(search: ShelfSearch, cache: Path) -> Iterator[FoundModel]:
    """Yield all that may chat or draft; of several revisions the newest known one."""
    for repository in search.folders_in(cache):
        if not repository.name.startswith(PREFIX):
            continue
        name = repository.name.removeprefix(PREFIX).replace("--", "/", 1)
        current = beginning(repository / "refs" / "main", 64).strip()
        snapshots = [
            each for each in search.folders_in(repository / "snapshots") if is_commit(each.name)
        ]
        known: set[Path] = set()
        for snapshot in sorted(snapshots, key=lambda each: each.name != current):
            for path in search.models_below(snapshot, _CACHE_DEPTH):
                place = path.relative_to(snapshot)
                if place in known or not _writes(path):
                    continue
                known.add(place)
                yield FoundModel(path, ModelOrigin.CACHE, repo=name, revision=snapshot.name)


def _writes(path: Path) -> bool:
    """Return whether a model writes text, by its config; GGUF files always do."""
    if not path.is_dir():
        return True
    try:
        names = JsonObject.read(path / "config.json").items("architectures")
    except (UserFixable, OSError):
        return True  # whoever lists it says what is wrong
    return not names or any(part in str(name) for name in names for part in _WRITES)
