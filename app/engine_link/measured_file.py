"""The file that measured speeds are kept in: one piece of JSON, written whole.

As with all that can be measured anew, nothing that goes wrong with it is an error.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.engine_link.measured import Measured
from engine.typed_json import decoded, encoded

VERSION = 1
MOST_BYTES = 1 << 20

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Content:
    version: int
    measured: tuple[Measured, ...]


class MeasuredFile:
    """One file; it may be written from any thread, one revision after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._gate = threading.Lock()
        self._newest = 0

    def read(self) -> tuple[Measured, ...]:
        """Return the content; nothing where it is missing, damaged or another version's."""
        try:
            with self.path.open("rb") as stream:
                content = decoded(_Content, json.loads(stream.read(MOST_BYTES)), "file")
        except FileNotFoundError:
            return ()
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("measured speeds cannot be read and begin anew: %r", error)
            return ()
        return content.measured if content.version == VERSION else ()

    def keep(self, revision: int, measured: Sequence[Measured]) -> None:
        """Write them, unless a later revision has been written already; of none, no file stays."""
        with self._gate:
            if revision <= self._newest:
                return
            self._newest = revision
            part = self.path.with_suffix(".part")
            try:
                if not measured:
                    self.path.unlink(missing_ok=True)
                    return
                text = json.dumps(encoded(_Content(VERSION, tuple(measured))), allow_nan=False)
                self.path.parent.mkdir(parents=True, exist_ok=True)
                part.write_text(text, encoding="utf-8")
                os.replace(part, self.path)
            except (OSError, ValueError) as error:
                _log.warning("measured speeds cannot be kept: %s", error)
                with suppress(OSError):
                    part.unlink()
