"""The folder of reports: a few text files, the oldest go first."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from app.data_folder.paths import Paths
from app.diagnostics.report_text import header, last_lines, safe_traceback, without_home

_log = logging.getLogger(__name__)

MOST = 10
_TIME = "%Y-%m-%d %H-%M-%S"


class ReportKind(StrEnum):
    """Kinds of reports."""

    ERROR = "error"
    """An error that nobody foresaw; Duotail went on."""
    CRASH = "crash"
    """Duotail ended."""


@dataclass(frozen=True, slots=True)
class Report:
    """One report, a text file."""

    path: Path
    kind: ReportKind
    written: datetime
    """When it was written, in local time."""

    def text(self) -> str:
        """Return the text of the report; empty when the file is gone."""
        try:
            return self.path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


class ReportFolder:
    """Writes, lists and deletes reports. What cannot be written is only logged."""

    def __init__(self, paths: Paths) -> None:
        self.path = paths.reports
        self._paths = paths
        self._told: set[str] = set()

    def knows(self, error: BaseException) -> bool:
        """Return whether this error has been reported since the start."""
        return safe_traceback(error) in self._told

    def of_error(self, error: BaseException) -> Report | None:
        """Report an error; None where the report cannot be written."""
        trace = safe_traceback(error)
        self._told.add(trace)
        return self._write(ReportKind.ERROR, "unexpected error", trace)

    def of_last_crash(self) -> Report | None:
        """Make a report of what a native crash of an earlier run has left, if one did."""
        try:
            dump = self._paths.crash_log.read_text(encoding="utf-8", errors="replace").strip()
            if not dump:
                return None
            report = self._write(ReportKind.CRASH, "ended unexpectedly", without_home(dump))
            os.truncate(self._paths.crash_log, 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            _log.warning("the last crash cannot be looked at: %s", error)
            return None
        return report

    def all(self) -> list[Report]:
        """Every report, the newest first."""
        found = []
        for path in self.path.glob("*.txt"):
            when, _, kind = path.stem.partition(" (")[0].rpartition(" ")
            try:
                written = datetime.strptime(when, _TIME).astimezone()
                found.append(Report(path, ReportKind(kind), written))
            except ValueError:
                _log.info("%s is no report", path.name)
        return sorted(found, key=lambda report: (report.written, report.path.name), reverse=True)

    def delete(self, report: Report) -> None:
        """Delete one."""
        try:
            report.path.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("a report cannot be deleted: %s", error)

    def delete_all(self) -> None:
        """Delete every one."""
        for report in self.all():
            self.delete(report)

    def _write(self, kind: ReportKind, title: str, trace: str) -> Report | None:
        now = datetime.now().astimezone()
        log = last_lines(self._paths.log)
        text = (
            f"{header(title, now.isoformat(' ', 'seconds'))}\n\n{trace}\n\n"
            f"The end of the log\n\n{log}\n"
        )
        report = Report(self._free_name(f"{now.strftime(_TIME)} {kind}"), kind, now)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            report.path.write_text(text, encoding="utf-8", errors="replace")
        except OSError as error:
            _log.warning("no report could be written: %s", error)
            return None
        for old in self.all()[MOST:]:
            self.delete(old)
        return report

    def _free_name(self, stem: str) -> Path:
        path = self.path / f"{stem}.txt"
        number = 2
        while path.exists():
            path = self.path / f"{stem} ({number}).txt"
            number += 1
        return path
