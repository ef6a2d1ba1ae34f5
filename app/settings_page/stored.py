"""Data that Duotail keeps on this computer: every place, its size, and how to empty it. No Qt."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from pathlib import Path

from app.data_folder.paths import Paths
from engine.devices.kept_estimates import estimates_folder
from engine.devices.kept_measurements import adapters_folder, learnt_folder, speeds_folder
from engine.hub.download.cache import cache_folder
from engine.language import later


class StoredData(StrEnum):
    """Kinds of stored data."""

    CONVERSATIONS = "conversations"
    SETTINGS = "settings"
    LOG = "log"
    REPORTS = "reports"
    BENCHMARKS = "benchmarks"
    MEASURED = "measured"
    SPEEDS = "speeds"
    ESTIMATES = "estimates"
    PREPARED = "prepared"
    COMPILED = "compiled"
    MODELS = "models"
    CACHE = "cache"


@dataclass(frozen=True, slots=True)
class Stored:
    """A place as the page tells of it; texts for `tr`."""

    place: StoredData
    label: str
    about: str
    path: Path
    files: Callable[[], Iterable[Path]]

    def size(self) -> int:
        """Bytes on disk. May take a moment."""
        return size_of(self.files())


def everything(paths: Paths, hub_cache: str = "") -> list[Stored]:
    """Every place there is; `hub_cache`: that of the settings, "" for the usual one."""
    return [*_own(paths), *_of_speed(paths), *_of_models(paths, hub_cache)]


def _own(paths: Paths) -> list[Stored]:
    """Return what the user has made, and the reports of errors."""
    return [
        Stored(
            StoredData.CONVERSATIONS,
            later("Conversations"),
            later("Your messages, the answers, their statistics, and your folders and titles."),
            paths.history,
            lambda: paths.data.glob("history.sqlite3*"),
        ),
        Stored(
            StoredData.SETTINGS,
            later("Settings"),
            later("Your settings and presets, with their system prompts, and your servers."),
            paths.settings,
            lambda: [paths.settings, paths.servers],
        ),
        Stored(
            StoredData.LOG,
            later("Log"),
            later(
                "What Duotail did in its last runs, for finding errors. It contains no text of "
                "a conversation."
            ),
            paths.log,
            lambda: [*paths.data.glob("duotail.log*"), paths.crash_log],
        ),
        Stored(
            StoredData.REPORTS,
            later("Crash reports"),
            later(
                "Written when an error occurs: versions, your system, where it occurred, the "
                "end of the log. The last ten are kept."
            ),
            paths.reports,
            lambda: paths.reports.glob("*.txt"),
        ),
    ]


def _of_speed(paths: Paths) -> list[Stored]:
    """Return what was measured here, or is made anew when it is needed."""
    prepared, speeds, estimates = _prepared_folder(), speeds_folder(), estimates_folder()
    compiled = prepared.with_name("objects")  # packaging/native_library.py keeps them there
    return [
        Stored(
            StoredData.BENCHMARKS,
            later("Benchmarks"),
            later("The last benchmark of each model, with its speed in every mode."),
            paths.benchmarks,
            lambda: paths.benchmarks.glob("*.json"),
        ),
        Stored(
            StoredData.MEASURED,
            later("Measured speeds"),
            later("The speeds of your last answers, with model and draft, without their text."),
            paths.measured,
            lambda: [paths.measured],
        ),
        Stored(
            StoredData.SPEEDS,
            later("Speed of this computer"),
            later("The measured speed of memory and devices; measured again when needed."),
            speeds,
            lambda: chain.from_iterable(
                each.glob("*") for each in (speeds, learnt_folder(), adapters_folder())
            ),
        ),
        Stored(
            StoredData.ESTIMATES,
            later("Memory estimates"),
            later(
                "Predicted and actual memory of models; they make the next prediction more "
                "accurate."
            ),
            estimates,
            lambda: estimates.glob("*"),
        ),
        Stored(
            StoredData.PREPARED,
            later("Quantised weights"),
            later("Weights converted for your CPU; rebuilt when needed."),
            prepared,
            lambda: prepared.glob("*"),
        ),
        Stored(
            StoredData.COMPILED,
            later("Compiled code"),
            later("Parts of Duotail that its set-up has compiled; compiled again when needed."),
            compiled,
            lambda: compiled.glob("*"),
        ),
    ]


def _of_models(paths: Paths, hub_cache: str) -> list[Stored]:
    """Models and what is known of them; they are deleted on the Models page."""
    cache = cache_folder(hub_cache or None)
    notes = ("models.json", paths.downloads.name, "checked.json")
    return [
        Stored(
            StoredData.MODELS,
            later("Copied models"),
            later(
                "Models copied to Duotail's folder, the list of your models, and running "
                "downloads. Delete single models on the Models page."
            ),
            paths.models,
            lambda: [*_below(paths.models), *(paths.data / name for name in notes)],
        ),
        Stored(
            StoredData.CACHE,
            later("Downloaded models"),
            later(
                "The Hugging Face cache, which other programs may use, too. Delete single "
                "models on the Models page."
            ),
            cache,
            lambda: (file for file in _below(cache) if not file.is_symlink()),
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
    return size_of(_below(folder))


def _below(folder: Path) -> Iterator[Path]:
    for place, _folders, names in os.walk(folder):
        yield from (Path(place) / name for name in names)


def empty(stored: Stored, paths: Paths) -> None:
    """Delete what is in a place that is emptied as a whole and that nobody else holds open.

    Raises:
        OSError: something cannot be deleted.
    """
    match stored.place:
        case StoredData.LOG:
            for old in paths.data.glob("duotail.log.*"):
                old.unlink()
            os.truncate(paths.log, 0)  # it is open, and goes on from here
        case StoredData.BENCHMARKS:
            for kept in paths.benchmarks.glob("*.json"):
                kept.unlink()
        case StoredData.MEASURED:
            paths.measured.unlink(missing_ok=True)
        case StoredData.SPEEDS | StoredData.ESTIMATES | StoredData.COMPILED:
            for kept in stored.files():
                kept.unlink(missing_ok=True)
        case StoredData.PREPARED:
            from engine.backend.native.packed_cache import PackedCache

            PackedCache().clear()


def _prepared_folder() -> Path:
    from engine.backend.native.packed_cache import cache_folder

    return cache_folder()
