"""Layouts in a row or a column, written as they look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLayout, QVBoxLayout, QWidget


@dataclass(frozen=True, slots=True)
class Spacing:
    """So many logical pixels more between two parts."""

    pixels: int


Item = QWidget | QLayout
Part = Item | int | Spacing | tuple[Item, int] | tuple[Item, int, Qt.AlignmentFlag]
"""A widget or a layout, with its stretch and alignment where needed; a number is empty stretch."""
Margins = int | tuple[int, int, int, int]
Box = TypeVar("Box", bound=QBoxLayout)


def hbox(
    *parts: Part,
    to: QWidget | None = None,
    spacing: int | None = None,
    margins: Margins | None = None,
) -> QHBoxLayout:
    """Return parts from left to right.

    Args:
        parts: what lies in it.
        to: the widget that it is the layout of.
        spacing: logical pixels between two parts; None: as the style has it.
        margins: around all of them, on every side or left, top, right and below.
    """
    return _filled(QHBoxLayout(), parts, to, spacing, margins)


def vbox(
    *parts: Part,
    to: QWidget | None = None,
    spacing: int | None = None,
    margins: Margins | None = None,
) -> QVBoxLayout:
    """Return parts from top to bottom; see `hbox`."""
    return _filled(QVBoxLayout(), parts, to, spacing, margins)


def _filled(
    box: Box,
    parts: tuple[Part, ...],
    to: QWidget | None,
    spacing: int | None,
    margins: Margins | None,
) -> Box:
    if to is not None:
        to.setLayout(box)
    if spacing is not None:
        box.setSpacing(spacing)
    if margins is not None:
        around = (margins,) * 4 if isinstance(margins, int) else margins
        box.setContentsMargins(*around)
    fill(box, *parts)
    return box


def fill(box: QBoxLayout, *parts: Part) -> None:
    """Add parts behind those that are there."""
    for part in parts:
        if isinstance(part, int):
            box.addStretch(part)
        elif isinstance(part, Spacing):
            box.addSpacing(part.pixels)
        else:
            item, stretch, *aligned = part if isinstance(part, tuple) else (part, 0)
            if isinstance(item, QLayout):
                box.addLayout(item, stretch)
            else:
                box.addWidget(item, stretch, *aligned)
