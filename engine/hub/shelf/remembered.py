"""The models that the user has brought here, remembered in a small file; written whole or not."""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from engine.errors import UserFixable
from engine.hardware.typed_json import decoded, encoded
from engine.hub.shelf.kept_model import ModelOrigin
from engine.language import tr

VERSION = 1
FILE = "models.json"
_MOST_BYTES = 16 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remembered:
    """One model.

    Attributes:
        path: absolute, as text.
        hashes: names of its files -> their sha256, of what was copied.
    """

    path: str
    origin: ModelOrigin
    repo: str | None = None
    revision: str | None = None
    licence: str = ""
    hashes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _File:
    version: int
    models: tuple[Remembered, ...] = ()


_Models = tuple[Remembered, ...]


class Memory:
    """The file, for any number of threads; one program at a time writes it."""

    def __init__(self, data: Path) -> None:
        self.file = data / FILE
        self._lock = Lock()

    def all(self) -> tuple[Remembered, ...]:
        """Every model, the one brought last first; none while the file cannot be opened."""
        with self._lock:
            try:
                return self._read()
            except OSError as error:
                _log.warning("the list of models cannot be opened: %s", error)
                return ()

    def remember(self, model: Remembered) -> None:
        """Put a model first, in the place of what was known of this path.

        Raises:
            UserFixable: the list cannot be read or written.
        """
        self._change(lambda known: (model, *(each for each in known if each.path != model.path)))

    def forget(self, path: Path) -> None:
        """Know nothing of a path any more. Raises as `remember`."""
        gone = str(path)
        self._change(lambda known: tuple(each for each in known if each.path != gone))

    def _change(self, change: Callable[[_Models], _Models]) -> None:
        with self._lock:
            try:
                known = self._read()
                changed = change(known)
                if changed != known:
                    self._write(changed)
            except OSError as error:
                raise UserFixable(
                    tr("The list of your models could not be saved."),
                    tr("Make the folder {folder} writable for your user.").format(
                        folder=self.file.parent
                    ),
                    str(error),
                ) from error

    def _read(self) -> _Models:
        """What the file says; one that says nothing sensible is kept beside as `models.bad`."""
        try:
            with self.file.open("rb") as stream:
                return decoded(_File, json.loads(stream.read(_MOST_BYTES)), FILE).models
        except FileNotFoundError:
            return ()
        except (ValueError, RecursionError) as error:
            _log.warning("the list of models is damaged: %r", error)
            os.replace(self.file, self.file.with_suffix(".bad"))
            return ()

    def _write(self, models: _Models) -> None:
        part = self.file.with_suffix(f".{os.getpid()}-{secrets.token_hex(4)}.part")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        try:
            text = json.dumps(encoded(_File(VERSION, models)), indent=1)
            part.write_text(text, encoding="utf-8", errors="surrogateescape")
            os.replace(part, self.file)
        finally:
            with suppress(OSError):
                part.unlink(missing_ok=True)
