"""The last benchmark of every model, kept in a file each; what is unreadable is as if not there."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path

from engine.bench.modes.report import ComparisonReport, from_table, to_table

VERSION = 1
_MOST_BYTES = 1 << 20
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A benchmark; `files`: how the model's files were, by `fingerprint`."""

    report: ComparisonReport
    files: str


class KeptReports:
    """A folder; may be used from any thread.

    Args:
        folder: made when first needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, model: Path) -> Kept | None:
        """Return the kept result of a model."""
        try:
            with self._file(model).open("rb") as stream:
                table = json.loads(stream.read(_MOST_BYTES))
            if not isinstance(table, dict) or table.get("version") != VERSION:
                return None
            files = table.get("files")
            return Kept(from_table(table.get("report")), files if isinstance(files, str) else "")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            _log.warning("a kept benchmark cannot be read: %r", error)
            return None

    def keep(self, model: Path, kept: Kept) -> None:
        """Write it in one go; it can be measured anew, so that a failure is only logged."""
        file = self._file(model)
        part = file.with_suffix(".part")
        content = {"version": VERSION, "files": kept.files, "report": to_table(kept.report)}
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            part.write_text(json.dumps(content), encoding="utf-8")
            os.replace(part, file)
        except OSError as error:
            _log.warning("a benchmark cannot be kept: %s", error)

    def _file(self, model: Path) -> Path:
        name = hashlib.sha256(str(model).encode("utf-8", "surrogateescape")).hexdigest()[:24]
        return self.folder / f"{name}.json"


def fingerprint(model: Path) -> str:
    """Changes when the model's files do; empty where they cannot be looked at."""
    try:
        files = sorted(model.iterdir()) if model.is_dir() else [model]
        stats = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    except OSError:
        return ""
    return hashlib.sha256(repr(stats).encode("utf-8", "surrogateescape")).hexdigest()[:24]
