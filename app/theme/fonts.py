"""Fonts and lengths that follow the text size while a window is open."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractScrollArea, QWidget

from app.theme.theme import font_scale, in_force, ui_font


class _Keeper(QObject):
    """Lives as long as its widget, and looks after it at every change of the theme."""

    def __init__(self, widget: QWidget, apply: Callable[[], None]) -> None:
        super().__init__(widget)
        self._apply = apply
        theme = in_force()
        if theme is not None:
            theme.changed.connect(self._again)
        apply()

    def _again(self) -> None:
        self._apply()


def keep_font(widget: QWidget, make: Callable[[], QFont]) -> None:
    """Give `widget` the font that `make` makes, now and whenever the text size changes."""

    def apply() -> None:
        font = make()
        widget.setFont(font)
        if isinstance(widget, QAbstractScrollArea):
            # Style sheets leave it the font it was made with: placeholders would not grow.
            widget.viewport().setFont(font)

    _Keeper(widget, apply)


def keep_sized(widget: QWidget, resize: Callable[[], None]) -> None:
    """Call `resize` now and whenever the text size changes, as long as `widget` lives."""
    _Keeper(widget, resize)


def sized(factor: float, weight: QFont.Weight | None = None) -> QFont:
    """Running text, `factor` times as large."""
    font = ui_font()
    font.setPointSizeF(font.pointSizeF() * factor)
    if weight is not None:
        font.setWeight(weight)
    return font


def scaled(length: float) -> int:
    """A length for texts of the system's size, grown with the text size; logical pixels."""
    return round(length * font_scale())
