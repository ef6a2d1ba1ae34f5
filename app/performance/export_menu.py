"""The button that saves what was measured: what to save, where, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from functools import partial
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QStandardPaths, Qt, Signal
from PySide6.QtGui import QImage, QImageWriter
from PySide6.QtWidgets import QFileDialog, QMenu, QToolButton, QWidget

from app.data_folder.exported_file import write
from app.engine_link.background import in_background
from app.performance.export import graphs_as_csv, rounds_as_csv, rounds_as_trace
from app.performance.feed import Feed
from app.theme.icons import IconButton
from engine.errors import UserFixable
from engine.language import later, tr


class ExportKind(StrEnum):
    """Files that can be saved; the values are texts for `tr`."""

    ROUNDS = later("Rounds as a table (CSV)\u2026")
    GRAPHS = later("Graphs as a table (CSV)\u2026")
    TRACE = later("Timeline for Perfetto (JSON)\u2026")
    PICTURE = later("Picture of this page (PNG)\u2026")


_FILES = {
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
    """

    said = Signal(str)
    """A sentence on what was done."""
    problem = Signal(object)
    """A `UserFixable`."""

    def __init__(
        self, feed: Feed, picture: Callable[[], QImage], parent: QWidget | None = None
    ) -> None:
        super().__init__("export", tr("Save what was measured"), parent)
        self._feed, self._picture = feed, picture
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        menu = QMenu(self)
        self.actions_of = {
            kind: menu.addAction(tr(kind.value), partial(self.choose, kind)) for kind in ExportKind
        }
        menu.aboutToShow.connect(self._show_possible)
        self.setMenu(menu)

    def choose(self, kind: ExportKind) -> None:
        """Ask for a file, and write it."""
        name, suffix = _FILES[kind]
        places = QStandardPaths.StandardLocation.DocumentsLocation
        folder = QStandardPaths.writableLocation(places)
        dialog = QFileDialog(self.window(), tr("Save what was measured"), folder)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(f"{suffix.upper()} (*.{suffix})")
        dialog.setDefaultSuffix(suffix)
        dialog.selectFile(f"duotail-{name}.{suffix}")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda chosen: self.save(kind, Path(chosen)))
        dialog.open()

    def save(self, kind: ExportKind, path: Path) -> None:
        """Write a file beside the window; `said` or `problem` tells the end of it."""
        content = self._content(kind)
        told = tr("{name} was saved.").format(name=path.name)
        in_background(
            self, lambda: write(path, content), lambda _: self.said.emit(told), self._failed
        )

    def _content(self, kind: ExportKind) -> Callable[[], bytes]:
        """Gathered now, put into bytes in another thread: a long answer has many rounds."""
        sight, lanes = self._feed.sight, self._feed.model.lanes
        if kind is ExportKind.PICTURE:
            image = self._picture()
            return lambda: _png(image)
        if kind is ExportKind.GRAPHS:
            table = graphs_as_csv(lanes, *sight.bounds)
            return table.encode
        rounds = tuple(sight.timeline.rounds)
        form = rounds_as_csv if kind is ExportKind.ROUNDS else rounds_as_trace
        return lambda: form(rounds).encode()

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, UserFixable):
            raise error
        self.problem.emit(error)

    def _show_possible(self) -> None:
        rounds = bool(self._feed.sight.timeline.rounds)
        for kind in (ExportKind.ROUNDS, ExportKind.TRACE):
            self.actions_of[kind].setEnabled(rounds)
        self.actions_of[ExportKind.GRAPHS].setEnabled(self._feed.model.sample is not None or rounds)


def _png(image: QImage) -> bytes:
    kept = QByteArray()
    buffer = QBuffer(kept)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    buffer.close()
    return bytes(kept.data())
