"""The downloads at the foot of the page: a line for all, and a row for each."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget

from app.models.job_row import JobActions, JobRow, summary
from app.theme.icons import IconButton
from app.widgets.boxes import hbox, vbox
from app.widgets.elided import ElidedLabel
from engine.hub.download.jobs import JobReport
from engine.language import tr

_SIDE = 24
_IN_SIGHT = 3
"""Rows; more of them scroll."""
_SHARE = 4
"""The rows take a quarter of the page at most: what is chosen above them stays whole."""


class DownloadsBar(QFrame):
    """Hidden where there are no downloads."""

    def __init__(self, actions: JobActions, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._actions = actions
        self.setProperty("look", "foot")
        self.setAccessibleName(tr("Downloads"))
        self.rows: dict[str, JobRow] = {}
        self.summary = ElidedLabel(self)
        self.summary.setProperty("look", "title")
        self.fold_button = IconButton("chevron-down", tr("Hide the list of downloads"), self)
        self.fold_button.clicked.connect(self._fold)
        self._inside = QWidget(self)
        self._column = vbox(to=self._inside, spacing=4, margins=(0, 0, 4, 0))
        self._scroller = _Rows(self)
        self._scroller.setWidget(self._inside)
        self._inside.setAutoFillBackground(False)
        vbox(
            hbox((self.summary, 1), self.fold_button),
            self._scroller,
            to=self,
            spacing=6,
            margins=(_SIDE, 8, _SIDE, 10),
        )
        self.hide()

    def show_reports(self, reports: Sequence[JobReport]) -> None:
        """Show the downloads' progress; rows stay, so that the keyboard stays where it is."""
        keys = [each.job.key for each in reports]
        for key in [key for key in self.rows if key not in keys]:
            gone = self.rows.pop(key)
            self._column.removeWidget(gone)
            gone.hide()
            gone.deleteLater()
        for report in reports:
            row = self.rows.get(report.job.key)
            if row is None:
                self._add(report)
            elif row.report != report:
                row.show_report(report)
        words = summary(reports)
        if self.summary.text() != words:
            self.summary.setText(tr("Downloads: {summary}").format(summary=words))
        self._scroller.updateGeometry()
        self.setVisible(bool(reports))

    def fit_page(self, height: int) -> None:
        """Leave room for what else is on a page of this height."""
        self._scroller.limit(height // _SHARE)

    def _add(self, report: JobReport) -> None:
        row = JobRow(report, self._actions, self._inside)
        self.rows[report.job.key] = row
        self._column.addWidget(row)
        row.show()

    def _fold(self) -> None:
        folded = not self._scroller.isHidden()
        self._scroller.setVisible(not folded)
        self.fold_button.set_icon("chevron-right" if folded else "chevron-down")
        words = tr("Show the list of downloads") if folded else tr("Hide the list of downloads")
        self.fold_button.setAccessibleName(words)
        self.fold_button.setToolTip(words)


class _Rows(QScrollArea):
    """Rows in an area as high as they are, up to a few."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self._most = 0

    def limit(self, height: int) -> None:
        """Be no higher than this, but for a row."""
        if height != self._most:
            self._most = height
            self.updateGeometry()

    def hasHeightForWidth(self) -> bool:  # noqa: N802
        """Return True, as error texts wrap."""
        return True

    def heightForWidth(self, width: int) -> int:  # noqa: N802
        """Return the height of all rows, or of the first few."""
        inside = self.widget()
        layout = inside.layout() if inside is not None else None
        if layout is None:
            return 0
        each = self.fontMetrics().height() * 2 + 24
        height = max(layout.heightForWidth(width), layout.sizeHint().height())
        most = max(min(self._most, round(each * (_IN_SIGHT + 0.5))), each)
        return min(height + 2, most)

    def sizeHint(self) -> QSize:  # noqa: N802
        """Return a size with the height for the present width."""
        return QSize(super().sizeHint().width(), self.heightForWidth(self.width()))

    def minimumSizeHint(self) -> QSize:  # noqa: N802
        """Return the present height as the least."""
        return QSize(0, self.heightForWidth(self.width()))
