"""Measurements as files for other programs: tables, a trace, pictures; the button that saves them.

Numbers are written as programs read them: a point for decimals, seconds and milliseconds.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QAction, QGuiApplication, QImage, QImageWriter
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from app.data_folder.exported_file import write
from app.engine_link.background import in_background
from app.notices import report_failure, tell, tell_saved
from app.performance.feed import Feed
from app.performance.model import GraphModel
from app.performance.timeline import begin_of, overlap
from app.theme.icons import IconButton
from app.widgets.file_dialog import ask_where_to_save
from engine.events import Interval, RoundFinished
from engine.language import later, tr

_MS = 1000.0
_US = 1e6


def _ms(seconds: float) -> str:
    return f"{_MS * seconds:.3f}"


_ROUND_COLUMNS: dict[str, Callable[[RoundFinished, float], object]] = {
    "round": lambda done, _: done.index,
    "start_ms": lambda done, start: _ms(begin_of(done) - start),
    "drafting_ms": lambda done, _: _ms(done.drafting_s),
    "verify_start_ms": lambda done, start: _ms(done.verify.start - start),
    "verify_ms": lambda done, _: _ms(done.verify.seconds),
    "both_ms": lambda done, _: _ms(overlap(done)),
    "copying_ms": lambda done, _: _ms(sum(each.seconds for each in done.transfers)),
    "useful_ms": lambda done, _: _ms(done.useful_s),
    "wasted_ms": lambda done, _: _ms(done.wasted_s),
    "drafted": lambda done, _: done.drafted,
    "accepted": lambda done, _: done.accepted,
    "committed": lambda done, _: done.committed,
    "context_used": lambda done, _: done.context_used,
    "text_start": lambda done, _: done.text_start,
    "text_end": lambda done, _: done.text_end,
}
"""Each with its value for a round, and the moment when the first one began."""


def rounds_as_csv(rounds: Sequence[RoundFinished]) -> str:
    """A line a round; times in milliseconds from the beginning of the first."""
    start = begin_of(rounds[0]) if rounds else 0.0
    rows = ([value(done, start) for value in _ROUND_COLUMNS.values()] for done in rounds)
    return _csv(tuple(_ROUND_COLUMNS), rows)


def graphs_as_csv(lanes: Sequence[GraphModel], start: float, end: float) -> str:
    """A line a measurement: seconds before the end, the graph, what of it, the value, its unit."""
    rows = []
    for lane in lanes:
        for place, series in enumerate(lane.series) if lane.present else ():
            name = lane.names[place] if lane.names else ""
            for time, value in zip(*map(list, series.between(start, end)), strict=True):
                if start <= time <= end and value == value:  # NaN is a break
                    rows.append((f"{time - end:.3f}", lane.title, name, f"{value:.6g}", lane.unit))
    return _csv(("seconds", "graph", "series", "value", "unit"), rows)


def rounds_as_trace(rounds: Sequence[RoundFinished]) -> str:
    """Return the format of Chrome's tracing, which Perfetto opens: a track for each lane."""
    start = begin_of(rounds[0]) if rounds else 0.0
    tracks = ("draft", "verify", "copy")
    events: list[dict[str, Any]] = [
        {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}}
        for tid, name in enumerate(tracks, start=1)
    ]

    def add(tid: int, name: str, work: Interval, **told: object) -> None:
        at, length = _US * (work.start - start), _US * work.seconds
        span = {"ts": round(at, 1), "dur": round(length, 1)}
        events.append({"ph": "X", "pid": 1, "tid": tid, "name": name, **span, "args": told})

    for done in rounds:
        for work in done.drafting:
            add(1, f"draft {done.index}", work, round=done.index)
        add(
            2,
            f"verify {done.accepted}/{done.drafted}" if done.drafted else "verify",
            done.verify,
            round=done.index,
            drafted=done.drafted,
            accepted=done.accepted,
            committed=done.committed,
            context=done.context_used,
        )
        for copy in done.transfers:
            add(3, "copy", copy, round=done.index)
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events})


def _csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return stream.getvalue()


class ExportKind(StrEnum):
    """Files that can be saved; the values are texts for `tr`."""

    CARD = later("Performance card (PNG)\u2026")
    ROUNDS = later("Rounds as a table (CSV)\u2026")
    GRAPHS = later("Graphs as a table (CSV)\u2026")
    TRACE = later("Timeline for Perfetto (JSON)\u2026")
    PICTURE = later("Picture of this page (PNG)\u2026")


_FILES = {
    ExportKind.CARD: ("card", "png"),
    ExportKind.ROUNDS: ("rounds", "csv"),
    ExportKind.GRAPHS: ("graphs", "csv"),
    ExportKind.TRACE: ("trace", "json"),
    ExportKind.PICTURE: ("performance", "png"),
}


class ExportButton(IconButton):
    """Saves the answer on show, its graphs, or a picture.

    Args:
        feed: the measurements.
        picture: takes a picture; called on the window's thread.
        card: draws the card to share; called there too.
    """

    def __init__(
        self,
        feed: Feed,
        picture: Callable[[], QImage],
        card: Callable[[], QImage],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("export", tr("Save measurements"), parent)
        self._feed, self._picture, self._card = feed, picture, card
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        self.actions_of = {
            kind: menu.addAction(tr(kind.value), partial(self.choose, kind)) for kind in ExportKind
        }
        first = menu.actions()[1]
        self.copy_action = QAction(tr("Copy the performance card"), menu)
        self.copy_action.triggered.connect(self.copy_card)
        menu.insertAction(first, self.copy_action)
        menu.insertSeparator(first)
        menu.aboutToShow.connect(self._show_possible)
        self.setMenu(menu)

    def copy_card(self) -> None:
        """Put the card on the clipboard."""
        QGuiApplication.clipboard().setImage(self._card())
        tell(tr("Copied. It contains nothing that identifies you."))

    def choose(self, kind: ExportKind) -> None:
        """Ask for a file, and write it."""
        name, suffix = _FILES[kind]
        ask_where_to_save(
            self.window(),
            tr("Save measurements"),
            lambda path: self.save(kind, path),
            f"duotail-{name}.{suffix}",
            f"{suffix.upper()} (*.{suffix})",
        )

    def save(self, kind: ExportKind, path: Path) -> None:
        """Write a file beside the window, and tell of the end of it."""
        content = self._content(kind)
        in_background(
            self, lambda: write(path, content), lambda _: tell_saved(path), report_failure
        )

    def _content(self, kind: ExportKind) -> Callable[[], bytes]:
        """Gathered now, put into bytes in another thread: a long answer has many rounds."""
        sight, lanes = self._feed.sight, self._feed.model.lanes
        if kind in (ExportKind.PICTURE, ExportKind.CARD):
            image = self._picture() if kind is ExportKind.PICTURE else self._card()
            return lambda: _png(image)
        if kind is ExportKind.GRAPHS:
            table = graphs_as_csv(lanes, *sight.bounds)
            return table.encode
        rounds = tuple(sight.timeline.rounds)
        form = rounds_as_csv if kind is ExportKind.ROUNDS else rounds_as_trace
        return lambda: form(rounds).encode()

    def _show_possible(self) -> None:
        rounds = bool(self._feed.sight.timeline.rounds)
        for kind in (ExportKind.ROUNDS, ExportKind.TRACE, ExportKind.CARD):
            self.actions_of[kind].setEnabled(rounds)
        self.copy_action.setEnabled(rounds)
        self.actions_of[ExportKind.GRAPHS].setEnabled(self._feed.model.sample is not None or rounds)


def _png(image: QImage) -> bytes:
    kept = QByteArray()
    buffer = QBuffer(kept)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    buffer.close()
    return bytes(kept.data())
