"""What Duotail keeps on this computer: every place, its size, and how it is emptied. No Qt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.paths import Paths
from app.reports import ReportFolder
from engine.language import later


class Place(StrEnum):
    """Something that is kept."""

    CONVERSATIONS = "conversations"
    SETTINGS = "settings"
    LOG = "log"
    REPORTS = "reports"
    BENCHMARKS = "benchmarks"
    PREPARED = "prepared"


@dataclass(frozen=True, slots=True)
class Stored:
    """A place as the page tells of it; texts for `tr`."""

    place: Place
    label: str
    about: str
    path: Path
    files: Callable[[], Iterable[Path]]

    def size(self) -> int:
        """Bytes on disk. May take a moment."""
        return size_of(self.files())


def everything(paths: Paths) -> list[Stored]:
    """Every place there is."""
    cache = _prepared_folder()
    return [
        Stored(
            Place.CONVERSATIONS,
            later("Conversations"),
            later("Your messages, the answers, their statistics, and your folders and titles."),
            paths.history,
            lambda: paths.data.glob("history.sqlite3*"),
        ),
        Stored(
            Place.SETTINGS,
            later("Settings"),
            later("What you chose here, with your presets and their system prompts."),
            paths.settings,
            lambda: [paths.settings],
        ),
        Stored(
            Place.LOG,
            later("Log"),
            later(
                "What Duotail did in its last runs, to find errors. No text of a conversation is"
                " written into it."
            ),
            paths.log,
            lambda: [*paths.data.glob("duotail.log*"), paths.crash_log],
        ),
        Stored(
            Place.REPORTS,
            later("Crash reports"),
            later(
                "Written when something goes wrong: versions, your system, the place in the"
                " program, the end of the log. The last ten are kept."
            ),
            paths.reports,
            lambda: paths.reports.glob("*.txt"),
        ),
        Stored(
            Place.BENCHMARKS,
            later("Benchmarks"),
            later("How fast each model ran in every mode, when you last measured it."),
            paths.benchmarks,
            lambda: paths.benchmarks.glob("*.json"),
        ),
        Stored(
            Place.PREPARED,
            later("Prepared models"),
            later("Models in the form that your processor reads fastest; made anew when needed."),
            cache,
            lambda: cache.glob("*"),
        ),
    ]


def size_of(files: Iterable[Path]) -> int:
    """Bytes of those that are there."""
    total = 0
    for file in files:
        try:
            total += file.stat().st_size
        except OSError:
            continue
    return total


def folder_size(folder: Path) -> int:
    """Bytes of everything below a folder."""
    return size_of(
        Path(place) / name for place, _folders, names in os.walk(folder) for name in names
    )


def empty(stored: Stored, paths: Paths) -> None:
    """Delete what is in a place, all but conversations and settings, which others hold open.

    Raises:
        OSError: something cannot be deleted.
    """
    match stored.place:
        case Place.LOG:
            for old in paths.data.glob("duotail.log.*"):
                old.unlink()
            os.truncate(paths.log, 0)  # it is open, and goes on from here
        case Place.REPORTS:
            ReportFolder(paths).delete_all()
        case Place.BENCHMARKS:
            for kept in paths.benchmarks.glob("*.json"):
                kept.unlink()
        case Place.PREPARED:
            from engine.backend.native.packed_cache import PackedCache

            PackedCache().clear()


def _prepared_folder() -> Path:
    from engine.backend.native.packed_cache import cache_folder

    return cache_folder()
