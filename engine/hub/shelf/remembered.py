"""The models that the user has brought here, remembered in a small file; written whole or not."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from engine.devices.typed_json import decoded, encoded
from engine.errors import UserFixable
from engine.hub.json_file import write_json
from engine.hub.shelf.kept_model import ModelOrigin
from engine.language import tr

VERSION = 1
FILE = "models.json"
_MOST_BYTES = 16 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Remembered:
    """A model as the file tells it.

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


class RememberedModels:
    """The file of remembered models, for any number of threads; one program at a time writes it."""

    def __init__(self, data: Path) -> None:
        self.file = data / FILE
        self._lock = Lock()

    def all(self) -> tuple[Remembered, ...]:
        """Return every model, the one brought last first; none while the file cannot be opened."""
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
        """Take a path off the list; raises as `remember`."""
        gone = str(path)
        self._change(lambda known: tuple(each for each in known if each.path != gone))

    def _change(self, change: Callable[[_Models], _Models]) -> None:
        with self._lock:
            try:
                known = self._read()
                changed = change(known)
                if changed != known:
                    write_json(self.file, encoded(_File(VERSION, changed)))
            except OSError as error:
                raise UserFixable(
                    tr("The list of your models could not be saved."),
                    tr("Make the folder {folder} writable for your user.").format(
                        folder=self.file.parent
                    ),
                    str(error),
                ) from error

    def _read(self) -> _Models:
        """Return what the file says; a damaged one is kept beside as `models.bad`."""
        try:
            with self.file.open("rb") as stream:
                return decoded(_File, json.loads(stream.read(_MOST_BYTES)), FILE).models
        except FileNotFoundError:
            return ()
        except (ValueError, RecursionError) as error:
            _log.warning("the list of models is damaged: %r", error)
            os.replace(self.file, self.file.with_suffix(".bad"))
            return ()
