"""Exports and imports as the user meets them: asking for files, progress, the result in words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QCoreApplication, QObject, Qt, Signal
from PySide6.QtWidgets import QWidget

from app.conversations.archive import (
    ExportFormat,
    Progress,
    Taken,
    export,
    file_name,
    take_in,
    write_reading_copy,
)
from app.engine_link.background import in_background
from app.history import Conversation
from app.notices import report, report_failure, tell, tell_saved
from app.session.conversation_list import ConversationList, shown_title
from app.signals import TypedSignal
from app.widgets.file_dialog import ask_for_files, ask_for_path, ask_where_to_save
from engine.errors import Cancelled, UserFixable
from engine.language import later, tr, tr_count

_FILTERS = {
    ExportFormat.MARKDOWN: later("Markdown (*.md)"),
    ExportFormat.JSON: later("JSON (*.json)"),
    ExportFormat.HTML: later("HTML (*.html)"),
    ExportFormat.PDF: later("PDF (*.pdf)"),
}


T = TypeVar("T")


class Transfer(QObject):
    """Exports and imports, one at a time, beside the window."""

    progressed = Signal(str, int)
    """The work under way and its progress in percent; an empty text when it is over."""
    imported = TypedSignal[Sequence[Conversation]]()
    """They came in."""
    _told = Signal(int)

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

    def choose_export(self, conversations: Sequence[Conversation], form: ExportFormat) -> None:
        """Ask for a file, or for a folder where there will be many, and write there."""
        title = tr("Export conversations")

        def chosen(path: Path) -> None:
            self.export_to(path, conversations, form)

        if form is not ExportFormat.JSON and len(conversations) > 1:
            ask_for_path(self._window, title, chosen, folder=True)
        else:
            known = shown_title(conversations[0]) if len(conversations) == 1 else "Duotail"
            name = file_name(known, form, set())
            ask_where_to_save(self._window, title, chosen, name, tr(_FILTERS[form]))

    def choose_reading_copy(self, conversation: Conversation) -> None:
        """Ask for a file, and write the conversation there as clean Markdown."""
        name = file_name(shown_title(conversation), ExportFormat.MARKDOWN, set())

        def chosen(path: Path) -> None:
            def told(_: None) -> None:
                self._end()
                tell_saved(path)

            history = self._list.path
            doing = tr("Exporting {name}\N{HORIZONTAL ELLIPSIS}").format(name=path.name)
            self._begin(doing, lambda _: write_reading_copy(history, conversation, path), told)

        kind = tr(_FILTERS[ExportFormat.MARKDOWN])
        ask_where_to_save(self._window, tr("Export to read"), chosen, name, kind)

    def choose_import(self) -> None:
        """Ask for files, and read them."""
        filters = [tr("Conversations (*.json *.jsonl *.md)"), tr("All files (*)")]
        ask_for_files(self._window, tr("Import conversations"), self.import_files, filters)

    # -- doing -----------------------------------------------------------------------------

    def export_to(
        self, path: Path, conversations: Sequence[Conversation], form: ExportFormat
    ) -> None:
        """Write conversations into a file, or each into its own where `path` is a folder."""
        count, history = len(conversations), self._list.path
        doing = tr_count(
            "Exporting {n} conversation\u2026", "Exporting {n} conversations\u2026", count
        )

        def told(_: None) -> None:
            words = tr_count(
                "{n} conversation was exported.", "{n} conversations were exported.", count
            )
            where = tr("It is in {name}.") if count == 1 else tr("They are in {name}.")
            self._end()
            tell_saved(path, f"{words} {where.format(name=path.name)}")

        self._begin(
            doing, lambda progress: export(history, conversations, path, form, progress), told
        )

    def import_files(self, paths: Sequence[Path]) -> None:
        """Take the conversations in these files into the history."""
        if not paths:
            return
        history = self._list.path

        def told(taken: Taken) -> None:
            self._list.take_in(taken.imported)
            for trouble in taken.troubles:
                report(trouble)
            self._end(taken.imported.said if taken.imported else "")
            self.imported.emit(taken.imported)

        doing = tr("Importing {name}\u2026").format(name=paths[0].name)
        self._begin(doing, lambda progress: take_in(history, paths, progress), told)

    def cancel(self) -> None:
        """End what is going on at its next step."""
        if self._progress is not None:
            self._progress.cancel()

    def _begin(self, doing: str, work: Callable[[Progress], T], done: Callable[[T], None]) -> None:
        """Do `work` beside the window, unless something else is going on."""
        if self._progress is not None:
            report(
                UserFixable(
                    tr("Another export or import is still running."),
                    tr("Wait until it is done, or cancel it."),
                )
            )
            return
        self._doing, self._progress = doing, Progress(self._told.emit)
        self.progressed.emit(doing, 0)
        progress = self._progress
        in_background(self, lambda: work(progress), done, self._failed, long=True)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, Cancelled):
            self._end(tr("Cancelled. What was finished is kept."))
            return
        self._end()
        report_failure(error)

    def _tell(self, percent: int) -> None:
        if self._progress is not None:
            self.progressed.emit(self._doing, percent)

    def _end(self, words: str = "") -> None:
        self._progress = None
        self.progressed.emit("", 0)
        if words:
            tell(words)
