"""A word at the window's bottom while other programs can use the model."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QSizePolicy, QToolButton, QWidget

from app.serving.model_server import ModelServer, ServingState
from engine.language import tr, tr_count


class ServerIndicator(QToolButton):
    """Shown while the server runs, with the number of its requests; a click leads to them."""

    def __init__(self, server: ModelServer, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._server = server
        self.setProperty("look", "strip")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        server.changed.connect(self._show)
        for signal in (server.requests.rowsInserted, server.requests.dataChanged):
            signal.connect(self._show)
        self._show()

    def _show(self) -> None:
        opened, active = self._server.opened, self._server.requests.active
        self.setVisible(self._server.state is ServingState.ON)
        if opened is None:
            return
        words = tr("Serving")
        if active:
            words = tr_count("Serving {n} request", "Serving {n} requests", active)
        if words != self.text():
            self.setText(words)
            self.setToolTip(
                tr("Other programs can use the model at {url}").format(url=opened.url)
            )  # fmt: skip
