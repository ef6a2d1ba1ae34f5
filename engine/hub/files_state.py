"""Whether a model's files are still what they were."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FilesState:
    """The files of a model as they are: the path, and each one's name, size and time."""

    path: Path
    files: frozenset[tuple[str, int, int]]

    @classmethod
    def of(cls, path: Path) -> FilesState:
        """Look at a folder's files, or at a single one.

        Raises:
            OSError: they cannot be looked at.
        """
        entries = path.iterdir() if path.is_dir() else [path]
        stats = {entry.name: entry.stat() for entry in entries}
        return cls(
            path,
            frozenset((name, stat.st_size, stat.st_mtime_ns) for name, stat in stats.items()),
        )
