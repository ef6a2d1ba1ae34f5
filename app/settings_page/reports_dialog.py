"""Crash reports, to read, copy and delete."""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QListWidget, QPlainTextEdit, QWidget

from app.data_folder.exported_file import show_folder
from app.diagnostics.reports import Report, ReportFolder, ReportKind
from app.theme.theme import mono_font, ui_font
from app.widgets.boxes import hbox, vbox
from app.widgets.labels import plain_label
from app.widgets.text_button import text_button
from engine.language import tr


class ReportsDialog(QDialog):
    """The reports on the left, the chosen one's text on the right."""

    restart_asked = Signal(bool)
    """Start anew; True: in safe mode."""
    changed = Signal()
    """A report has been deleted."""

    def __init__(self, folder: ReportFolder, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Crash reports"))
        self._folder = folder
        self._reports: list[Report] = []
        self.list = QListWidget(self)
        self.list.setAccessibleName(tr("Crash reports"))
        self.text = QPlainTextEdit(self, readOnly=True, tabChangesFocus=True)
        self.text.setAccessibleName(tr("The report"))
        self.text.setFont(mono_font())
        self.text.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self._about = plain_label(
            tr(
                "A report contains the versions of Duotail and its libraries, your system, "
                "where the error occurred and the last lines of the log. It contains no text "
                "of a conversation and stays on this computer unless you share it."
            ),
            self,
            "muted",
        )
        self._make_buttons()
        self._arrange()
        self.list.currentRowChanged.connect(self._show)
        self._fill()

    def _make_buttons(self) -> None:
        self.copy = text_button(tr("Copy report"), self, self._copy)
        self.delete = text_button(tr("Delete"), self, self._delete)
        self.delete_all = text_button(tr("Delete all"), self, self._delete_all)
        self.open_folder = text_button(
            tr("Open the folder"), self, lambda: show_folder(self._folder.path)
        )
        self.safe = text_button(tr("Start in safe mode"), self, self._start_in_safe_mode)
        self.safe.setToolTip(tr("Restarts Duotail with portable code: slower, but the safest."))

    def _arrange(self) -> None:
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        box.rejected.connect(self.reject)
        vbox(
            self._about,
            (hbox(self.list, (self.text, 1), spacing=12), 1),
            hbox(self.copy, self.delete, self.delete_all, self.open_folder, 1, spacing=8),
            hbox(self.safe, 1, box),
            to=self,
            spacing=12,
            margins=(20, 18, 20, 16),
        )
        em = ui_font().pointSizeF()
        self.resize(min(1100, round(82 * em)), min(800, round(52 * em)))

    def _fill(self, row: int = 0) -> None:
        self._reports = self._folder.all()
        self.list.clear()
        for report in self._reports:
            self.list.addItem(_title(report))
        # Wide enough for its lines, which are all of a kind.
        self.list.setFixedWidth(max(180, self.list.sizeHintForColumn(0) + 24))
        self.list.setVisible(bool(self._reports))
        self.list.setCurrentRow(min(row, len(self._reports) - 1))
        self._show()

    def _show(self) -> None:
        row = self.list.currentRow()
        chosen = 0 <= row < len(self._reports)
        self.text.setPlainText(
            self._reports[row].text() if chosen else tr("There are no crash reports.")
        )
        for button in (self.copy, self.delete, self.delete_all):
            button.setEnabled(chosen)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())

    def _delete(self) -> None:
        row = self.list.currentRow()
        self._folder.delete(self._reports[row])
        self._fill(row)
        self.changed.emit()

    def _delete_all(self) -> None:
        self._folder.delete_all()
        self._fill()
        self.changed.emit()

    def _start_in_safe_mode(self) -> None:
        self.accept()
        self.restart_asked.emit(True)


def _title(report: Report) -> str:
    written = QDateTime.fromSecsSinceEpoch(int(report.written.timestamp()))
    when = QLocale().toString(written, QLocale.FormatType.ShortFormat)
    what = tr("Error") if report.kind is ReportKind.ERROR else tr("Crash")
    return f"{when}\n{what}"
