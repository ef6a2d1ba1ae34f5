"""Our own stroke icons, recoloured when they are loaded."""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from PySide6.QtCore import QByteArray, QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QToolButton, QWidget

from app.theme.keys import with_keys
from app.theme.theme import current, font_scale

_BUTTON = 18
_SIZES = (16, 18, 20, 24, 32, 40, 48, 64)
_DISABLED = 0.4
"""Opacity of what cannot be pressed."""


@cache
def _folder() -> Traversable:
    return resources.files("app.theme") / "icons"


def names() -> list[str]:
    """Every icon there is."""
    files = (entry.name for entry in _folder().iterdir())
    return sorted(name.removesuffix(".svg") for name in files if name.endswith(".svg"))


@cache
def _source(name: str) -> str:
    return (_folder() / f"{name}.svg").read_text(encoding="utf-8")


@cache
def icon(name: str, colour: str) -> QIcon:
    """The icon `name`, drawn in `colour` ("#rrggbb"), sharp at the usual sizes and scales."""
    svg = _source(name).replace("currentColor", colour)
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    result = QIcon()
    for size in _SIZES:
        pixmap = QPixmap(size, size)
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        renderer.render(painter, QRectF(0, 0, size, size))
        painter.end()
        result.addPixmap(pixmap)
        result.addPixmap(_faint(pixmap), QIcon.Mode.Disabled)
    return result


def _faint(pixmap: QPixmap) -> QPixmap:
    """Return an icon as a disabled button shows it; Qt's own is as bright as ours in the dark."""
    result = QPixmap(pixmap.size())
    result.fill(Qt.GlobalColor.transparent)
    painter = QPainter(result)
    painter.setOpacity(_DISABLED)
    painter.drawPixmap(0, 0, pixmap)
    painter.end()
    return result


class IconButton(QToolButton):
    """A flat button that is only an icon; `name` is what screen readers and the tooltip say."""

    def __init__(
        self, icon_name: str, name: str, parent: QWidget | None = None, *, shortcut: str = ""
    ) -> None:
        super().__init__(parent)
        self._icon_name = icon_name
        self._role = "muted"
        self.setAccessibleName(name)
        self.setToolTip(with_keys(name, shortcut) if shortcut else name)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setAutoRaise(True)
        self._reload()

    def set_icon(self, icon_name: str, role: str = "muted") -> None:
        """Show another icon, in the colour token `role`."""
        self._icon_name = icon_name
        self._role = role
        self._reload()

    def changeEvent(self, event: QEvent) -> None:  # noqa: N802
        """Recolour with the theme."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange):
            self._reload()

    def _reload(self) -> None:
        colour = str(getattr(current(), self._role))
        size = round(_BUTTON * font_scale())
        self.setIconSize(QSize(size, size))
        self.setIcon(icon(self._icon_name, colour))
