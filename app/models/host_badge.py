"""The badge beside the model's name that says where the words go, while they go elsewhere."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QToolButton, QWidget

from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus
from app.theme.icons import icon
from app.theme.theme import current
from engine.language import tr

_WIDEST = 190


class HostBadge(QToolButton):
    """Names the server that answers; hidden while the engine of this computer does."""

    def __init__(self, bridge: EngineBridge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.host = ""
        self.setProperty("look", "chip")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        bridge.status_changed.connect(self._show)
        self._show(bridge.status)

    def recolour(self) -> None:
        """Draw the sign in the colours of the theme."""
        self.setIcon(icon("globe", current().warning))

    def _show(self, status: EngineStatus) -> None:
        host = status.plan.host if status.plan is not None else ""
        if host == self.host and self.isHidden() == (not host):
            return
        self.host = host
        self.setVisible(bool(host))
        metrics = self.fontMetrics()
        self.setText(metrics.elidedText(host, Qt.TextElideMode.ElideMiddle, _WIDEST))
        words = tr("What you write is sent to {host} and answered there.").format(host=host)
        self.setToolTip(words)
        self.setAccessibleName(words)
        self.recolour()
