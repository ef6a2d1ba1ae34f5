"""JSON files that Duotail keeps: lists of the user's, and what was measured or counted once.

In its cache a folder holds one file per value, named by a hash of everything that the value depends
on. All of that can be made anew, so nothing that goes wrong (read-only, full, damaged, gone) is an
error there.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

import platformdirs

from engine.errors import UserFixable
from engine.typed_json import decoded, encoded

T = TypeVar("T")

MOST_BYTES = 1 << 20
"""Longer files are not read to their end, and so count as damaged."""

_log = logging.getLogger(__name__)


def cache_subfolder(name: str) -> Path:
    """Return a folder of Duotail's cache; DUOTAIL_CACHE_DIR chooses another place for all."""
    chosen = os.environ.get("DUOTAIL_CACHE_DIR")
    root = Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("Duotail", False)
    return root / name


def write_json(path: Path, value: object, *, private: bool = False) -> None:
    """Write a file whole or not at all; its folder is made where it is missing.

    Args:
        path: the file.
        value: as `json.dumps` takes it.
        private: only the user can read the file, on systems with such rights.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    part = path.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.touch(0o600 if private else 0o666)
        part.write_text(json.dumps(value, indent=1, allow_nan=False), "utf-8")
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def write_list(path: Path, name: str, entries: Iterable[object]) -> None:
    """Write a list of dataclasses under its name; raises as `write_json`."""
    write_json(path, {"version": 1, name: [encoded(each) for each in entries]})


def read_list(path: Path, name: str, kind: type[T]) -> list[T]:
    """Return what `write_list` has written; a damaged file is kept beside it as `*.bad`.

    Entries that a newer version has written and this one does not understand are left out.

    Raises:
        OSError: the file is there and cannot be opened.
    """
    try:
        entries = list(json.loads(path.read_text("utf-8"))[name])
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _log.warning("%s is damaged: %r", path.name, error)
        path.replace(path.with_suffix(".bad"))
        return []
    found = list[T]()
    for entry in entries:
        try:
            found.append(decoded(kind, entry, path.name))
        except (ValueError, UserFixable) as error:
            _log.warning("left out of %s: %s", path.name, error)
    return found


class KeptFiles(Generic[T]):
    """Values of one dataclass in one folder. Several processes may use it at once.

    Args:
        kind: the dataclass.
        folder: where the files are; it need not exist.
        name_of: a value's name, which is also that of its file.
        most: files that stay, the newest.
    """

    def __init__(
        self, kind: type[T], folder: Path, name_of: Callable[[T], str], *, most: int
    ) -> None:
        self.folder = folder
        self._kind, self._name_of, self._most = kind, name_of, most

    def find(self, name: str) -> T | None:
        """Return the value of this name; None where there is none, or only a damaged one."""
        try:
            with self._path(name).open("rb") as stream:
                found = decoded(self._kind, json.loads(stream.read(MOST_BYTES)), "file")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _log.info("%s of %s is not used: %r", name, self.folder.name, error)
            return None
        return found if self._name_of(found) == name else None

    def all(self) -> list[T]:
        """Return every value, the newest first."""
        found = (self.find(path.stem) for path in self._newest_first()[: self._most])
        return [each for each in found if each is not None]

    def keep(self, value: T) -> None:
        """Write a value down as a whole or not at all, and delete the oldest files."""
        name = self._name_of(value)
        try:
            write_json(self._path(name), encoded(value))
        except OSError as error:
            _log.info("%s of %s cannot be kept: %s", name, self.folder.name, error)
        for path in self._newest_first()[self._most :]:
            with suppress(OSError):
                path.unlink()

    def forget(self, value: T) -> None:
        """Delete the file of a value, if it is there."""
        with suppress(OSError):
            self._path(self._name_of(value)).unlink(missing_ok=True)

    def _newest_first(self) -> list[Path]:
        try:
            return sorted(self.folder.glob("*.json"), key=lambda path: -path.stat().st_mtime_ns)
        except OSError:  # another process deletes files at the same time
            return []

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.json"
