"""Exports and imports as the user meets them: asking for files, progress, the result in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QObject, QStandardPaths, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.background import in_background
from app.conversations.archive import (
    Cancelled,
    Format,
    Progress,
    Result,
    export_files,
    export_one_file,
    file_name,
    import_files,
)
from app.conversations.library import ConversationList, shown_title
from app.history import Conversation
from engine.errors import UserFixable
from engine.language import later, tr, tr_count

_FILTERS = {
    Format.MARKDOWN: later("Markdown (*.md)"),
    Format.JSON: later("JSON (*.json)"),
}


T = TypeVar("T")


class Transfer(QObject):
    """Exports and imports, one at a time, beside the window."""

    said = Signal(str)
    """What was done, in a sentence."""
    problem = Signal(object)
    """A `UserFixable`."""
    progressed = Signal(str, int)
    """What is going on and how far it is, in percent; an empty text: nothing any more."""
    imported = Signal(object)
    """The conversations that came in."""
    _told = Signal(int, int)

    def __init__(self, conversations: ConversationList, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self._list = conversations
        self._doing = ""
        self._progress: Progress | None = None
        self._told.connect(self._tell, Qt.ConnectionType.QueuedConnection)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.cancel)

    # -- asking ----------------------------------------------------------------------------

    def choose_export(self, conversations: Sequence[Conversation], form: Format) -> None:
        """Ask for a file, or for a folder where there will be many, and write there."""
        dialog = QFileDialog(self._window, tr("Export conversations"), _documents())
        if form is Format.MARKDOWN and len(conversations) > 1:
            dialog.setFileMode(QFileDialog.FileMode.Directory)
            dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        else:
            title = shown_title(conversations[0]) if len(conversations) == 1 else "Duotail"
            dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
            dialog.setNameFilter(tr(_FILTERS[form]))
            dialog.setDefaultSuffix(form)
            dialog.selectFile(file_name(title, form, set()))
        dialog.fileSelected.connect(lambda name: self.export_to(Path(name), conversations, form))
        _open(dialog)

    def choose_import(self) -> None:
        """Ask for files, and read them."""
        dialog = QFileDialog(self._window, tr("Import conversations"), _documents())
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setNameFilters([tr("Conversations (*.json *.jsonl)"), tr("All files (*)")])
        dialog.filesSelected.connect(
            lambda names: self.import_files([Path(name) for name in names])
        )
        _open(dialog)

    # -- doing -----------------------------------------------------------------------------

    def export_to(self, path: Path, conversations: Sequence[Conversation], form: Format) -> None:
        """Write conversations into a file, or each into its own where `path` is a folder."""
        doing = tr_count(
            "Exporting {n} conversation\u2026",
            "Exporting {n} conversations\u2026",
            len(conversations),
        )
        history = self._list.path

        def work(progress: Progress) -> int:
            if path.is_dir():
                return export_files(history, conversations, path, progress)
            return export_one_file(history, conversations, path, form, progress)

        def done(count: int) -> None:
            words = tr_count(
                "{n} conversation was written to {{name}}.",
                "{n} conversations were written to {{name}}.",
                count,
            )
            self.said.emit(words.format(name=path.name))

        self._start(doing, work, done)

    def import_files(self, paths: Sequence[Path]) -> None:
        """Take the conversations in these files into the history."""
        if not paths:
            return
        doing = tr("Importing {name}\u2026").format(name=paths[0].name)
        history = self._list.path

        def done(result: Result) -> None:
            self._list.take_in(result.conversations)
            for trouble in result.troubles:
                self.problem.emit(trouble)
            if result.conversations:
                count = len(result.conversations)
                self.said.emit(
                    tr_count(
                        "{n} conversation was imported.", "{n} conversations were imported.", count
                    )
                )
                self.imported.emit(result.conversations)

        self._start(doing, lambda progress: import_files(history, paths, progress), done)

    def cancel(self) -> None:
        """End what is going on at its next step."""
        if self._progress is not None:
            self._progress.cancel()

    def _start(self, doing: str, work: Callable[[Progress], T], done: Callable[[T], None]) -> None:
        if self._progress is not None:
            self.problem.emit(
                UserFixable(
                    tr("Another export or import is still going on."),
                    tr("Wait until it is done, or cancel it."),
                )
            )
            return
        progress = self._progress = Progress(self._told.emit)
        self._doing = doing
        self.progressed.emit(doing, 0)

        def finish(result: T) -> None:
            self._end()
            done(result)

        in_background(self, lambda: work(progress), finish, self._failed)

    def _failed(self, error: Exception) -> None:
        self._end()
        if isinstance(error, UserFixable):
            self.problem.emit(error)
        elif isinstance(error, Cancelled):
            self.said.emit(tr("Cancelled. What was written before is kept."))
        else:
            raise error

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None and total:
            self.progressed.emit(self._doing, min(100 * done // total, 100))

    def _end(self) -> None:
        self._progress = None
        self.progressed.emit("", 0)


def _documents() -> str:
    return QStandardPaths.writableLocation(QStandardPaths.StandardLocation.DocumentsLocation)


def _open(dialog: QFileDialog) -> None:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.open()
