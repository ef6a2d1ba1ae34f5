"""The sizes, spacing and fonts of a message's text, as Qt's text formats."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontInfo, QTextBlockFormat, QTextCharFormat, QTextFormat

from app.theme.theme import FORMULA_FAMILIES, current, mono_font, ui_font

CODE_HEADER = 34
"""Height of the strip above code that holds the language and the copy button."""
CODE_PADDING = 14
CODE_HANG = 18
"""Pixels that the rest of a wrapped line of code is moved in."""
INDENT = 26
"""Width of one level of a list."""
QUOTE_INDENT = 18
_HEADING_SCALE = {1: 1.4, 2: 1.22, 3: 1.08}


def prose_size() -> float:
    """Point size of running text."""
    return ui_font().pointSizeF() + 0.9


@dataclass(frozen=True, slots=True)
class TextFonts:
    """The fonts in force, at one size. Thoughts have a smaller one than answers."""

    size: float
    """Point size of running text."""
    prose: QFont
    mono: QFont

    @classmethod
    def now(cls, scale: float = 1.0) -> TextFonts:
        """Return the fonts of the theme in force, `scale` times as large."""
        prose, mono = ui_font(), mono_font()
        size = prose_size() * scale
        prose.setPointSizeF(size)
        mono.setPointSizeF((mono.pointSizeF() + 0.4) * scale)
        return cls(size, prose, mono)

    def line(self, *, rtl: bool = False) -> QTextBlockFormat:
        """The paragraph format of running text."""
        style = QTextBlockFormat()
        set_line_height(style, self.prose, 1.55)
        direction = Qt.LayoutDirection.RightToLeft if rtl else Qt.LayoutDirection.LeftToRight
        style.setLayoutDirection(direction)
        return style

    def text(self) -> QTextCharFormat:
        """The character format of running text."""
        style = QTextCharFormat()
        style.setFontPointSize(self.size)
        return style

    def heading(self, level: int) -> QTextCharFormat:
        """The character format of a heading."""
        style = self.text()
        style.setFontPointSize(self.size * _HEADING_SCALE.get(level, 1.0))
        style.setFontWeight(QFont.Weight.DemiBold)
        return style

    def code(self) -> QTextCharFormat:
        """The character format of code."""
        style = QTextCharFormat()
        style.setFontFamilies(self.mono.families())
        style.setFontFixedPitch(True)
        style.setProperty(QTextFormat.Property.FontSizeAdjustment, 0)
        style.setFontStyleHint(QFont.StyleHint.Monospace)
        style.setFontPointSize(self.mono.pointSizeF())
        return style

    def code_line(self, indent: float) -> QTextBlockFormat:
        """The paragraph format of a line of code; what does not fit goes on further in."""
        style = QTextBlockFormat()
        style.setLeftMargin(indent + CODE_PADDING + CODE_HANG)
        style.setTextIndent(-CODE_HANG)
        style.setRightMargin(CODE_PADDING)
        style.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
        set_line_height(style, self.mono, 1.5)
        return style

    def inline_code(self, style: QTextCharFormat) -> QTextCharFormat:
        """Code within text of the format `style`."""
        result = QTextCharFormat(style)
        result.merge(self.code())
        result.setFontPointSize(style.fontPointSize() * 0.9)
        result.setBackground(QColor(current().hover))
        return result

    def maths(self, style: QTextCharFormat) -> QTextCharFormat:
        """Upright parts of formulas within text of the format `style`."""
        result = QTextCharFormat(style)
        result.setFontFamilies(FORMULA_FAMILIES)
        result.setFontStyleHint(QFont.StyleHint.Serif)
        result.setFontPointSize(style.fontPointSize() * 1.04)
        return result


def link(style: QTextCharFormat, address: str) -> QTextCharFormat:
    """Text of the format `style` that leads to `address`."""
    result = QTextCharFormat(style)
    result.setAnchor(True)
    result.setAnchorHref(address)
    result.setForeground(QColor(current().accent))
    result.setFontUnderline(True)
    return result


def set_line_height(style: QTextBlockFormat, font: QFont, factor: float) -> None:
    """Give lines at least `factor` times the font's size, whatever the font itself asks for."""
    height = QFontInfo(font).pixelSize() * factor
    style.setLineHeight(height, QTextBlockFormat.LineHeightTypes.MinimumHeight.value)


def is_rtl(text: str) -> bool:
    """Return whether a paragraph reads from right to left: its first letter decides."""
    if text.isascii():
        return False
    for character in text:
        kind = unicodedata.bidirectional(character)
        if kind in {"R", "AL"}:
            return True
        if kind == "L":
            return False
    return False


def gap(before: str, after: str) -> int:
    """Vertical space between two kinds of text block, in pixels."""
    if before in {"", "table"} or after == "continued":
        return 0  # a table brings its own space below
    if before == "code":
        return CODE_PADDING + 14
    if after in {"item", "nested"} and before in {"item", "nested"}:
        return 4
    if after.startswith("heading"):
        return 20
    if before.startswith("heading"):
        return 6
    return 12
