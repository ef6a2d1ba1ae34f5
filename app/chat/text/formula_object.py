"""Formulas painted within a text: one character of the document each."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QRect, QRectF, QSizeF
from PySide6.QtGui import (
    QFont,
    QFontInfo,
    QFontMetrics,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

from app.chat.text.regions import Property

if TYPE_CHECKING:
    from app.chat.maths.boxes import Box

_KIND = QTextFormat.ObjectTypes.UserObject.value + 1
_OBJECT = "\ufffc"
_SMALLEST = 0.5
"""A formula that is wider than its line is painted smaller, down to this."""


class FormulaObject(QPyTextObject):
    """Tells a document's layout how large formulas are, and paints them."""

    def intrinsicSize(  # noqa: N802
        self, doc: QTextDocument, _position: int, style: QTextFormat
    ) -> QSizeF:
        """Return the size of a formula, whose line is where letters' is."""
        look = style.toCharFormat()
        box, scale = _box(look), _scale(_box(look), doc)
        return QSizeF(box.width * scale, box.ascent * scale + QFontMetrics(look.font()).descent())

    def drawObject(  # noqa: N802
        self,
        painter: QPainter,
        rect: QRectF | QRect,
        doc: QTextDocument,
        _position: int,
        style: QTextFormat,
    ) -> None:
        """Paint a formula in the colour of the text around it."""
        look = style.toCharFormat()
        box = _box(look)
        coloured = look.hasProperty(QTextFormat.Property.ForegroundBrush)
        colour = look.foreground().color() if coloured else painter.pen().color()
        scale = _scale(box, doc)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(rect)
        painter.translate(area.left(), area.bottom() - QFontMetrics(look.font()).descent())
        painter.scale(scale, scale)
        box.paint(painter, 0.0, 0.0, colour)
        painter.restore()


def paint_formulas(document: QTextDocument, owner: QObject) -> None:
    """Let a document paint its formulas."""
    document.documentLayout().registerHandler(_KIND, FormulaObject(owner))


def insert_formula(
    cursor: QTextCursor, latex: str, style: QTextCharFormat, *, display: bool
) -> None:
    """Insert a formula in the format that text of it would have."""
    look = QTextCharFormat(style)
    look.setObjectType(_KIND)
    look.setProperty(Property.LATEX, latex)
    look.setProperty(Property.DISPLAY, display)
    look.setProperty(Property.PIXELS, QFontInfo(style.font()).pixelSize())
    # Qt ends an object where letters of its font end: the size of the font says how deep that is.
    look.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
    look.clearProperty(QTextFormat.Property.FontPointSize)
    pixels = _reaching(tuple(look.fontFamilies() or ()), math.ceil(_box(look).descent))
    look.setProperty(QTextFormat.Property.FontPixelSize, pixels)
    cursor.insertText(_OBJECT, look)


def _box(look: QTextCharFormat) -> Box:
    return _set(
        str(look.property(Property.LATEX)),
        tuple(look.fontFamilies() or ()),
        int(look.property(Property.PIXELS)),
        display=bool(look.property(Property.DISPLAY)),
    )


@lru_cache(maxsize=512)
def _set(latex: str, families: tuple[str, ...], pixels: int, *, display: bool) -> Box:
    from app.chat.maths.formula import atoms_of  # most texts have none to set
    from app.chat.maths.typeset import typesetter

    return typesetter(families).set(atoms_of(latex), pixels, display=display)


@lru_cache(maxsize=512)
def _reaching(families: tuple[str, ...], descent: int) -> int:
    """Return the size of a font whose letters reach so far below their line, at least."""
    font = QFont()
    font.setFamilies(list(families))
    pixels = max(descent, 1)
    font.setPixelSize(pixels)
    while QFontMetrics(font).descent() < descent:
        pixels += 1
        font.setPixelSize(pixels)
    return pixels


def _scale(box: Box, doc: QTextDocument) -> float:
    """Return how much smaller a formula has to be for its line."""
    room = doc.textWidth()
    return max(min(room / box.width, 1.0), _SMALLEST) if room > 0 and box.width else 1.0
