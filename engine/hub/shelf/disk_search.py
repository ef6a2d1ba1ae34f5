"""Looking for models in folders that are not ours: bounded in time, depth and number."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from engine.hub.shelf.kept_model import ModelOrigin
from engine.model.model_files import PACKED, models_in

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
        cut_short: whether there was more to look at.
    """

    seconds: float = 5.0
    folders: int = 20_000
    cut_short: bool = False
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
            self.cut_short = True
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
