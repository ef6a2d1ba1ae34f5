"""The latest requests to the server, in a window that can stay open beside the chat."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableView,
    QWidget,
)

from app.serving.request_list import STATE, RequestList
from app.theme.fonts import scaled
from app.widgets.boxes import vbox
from app.widgets.labels import plain_label
from engine.language import tr

_WIDTH, _HEIGHT = 980, 420
_WIDE = (1, 2, 3)
"""Columns that share the room that the others leave."""


class RequestsDialog(QDialog):
    """Who requests, and how far each request is."""

    settings_asked = Signal()

    def __init__(self, requests: RequestList, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Requests"))
        self._requests = requests
        about = tr(
            "Programs that use the server now, or did so recently. What is asked is never kept."
        )
        self.nothing = plain_label(tr("No requests yet."), self)
        self.view = QTableView(self, showGrid=False, wordWrap=False)
        self.view.setModel(requests)
        self.view.setAccessibleName(tr("Requests"))
        self.view.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.view.setAlternatingRowColors(True)
        self.view.setTabKeyNavigation(False)
        self.view.verticalHeader().hide()
        header = self.view.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        for column in _WIDE:
            header.setSectionResizeMode(column, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(STATE, QHeaderView.ResizeMode.Interactive)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close, self)
        buttons.button(QDialogButtonBox.StandardButton.Close).setText(tr("Close"))
        settings = buttons.addButton(
            tr("Server settings"), QDialogButtonBox.ButtonRole.ActionRole
        )  # fmt: skip
        settings.clicked.connect(self.settings_asked)
        buttons.rejected.connect(self.close)
        vbox(
            plain_label(about, self, "muted"),
            (self.nothing, 1, Qt.AlignmentFlag.AlignTop),
            (self.view, 1),
            buttons,
            to=self,
        )
        for signal in (requests.rowsInserted, requests.rowsRemoved, requests.dataChanged):
            signal.connect(self._follow)
        self._follow()
        self.resize(scaled(_WIDTH), scaled(_HEIGHT))
        self.view.setFocus()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Rows are as high as their text."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.FontChange, QEvent.Type.StyleChange):
            self._follow()

    def _follow(self) -> None:
        some = self._requests.rowCount() > 0
        self.view.setVisible(some)
        self.nothing.setVisible(not some)
        self.view.resizeColumnToContents(STATE)
        self.view.verticalHeader().setDefaultSectionSize(self.view.fontMetrics().height() + 10)
