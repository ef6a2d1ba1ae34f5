"""The background of a message's text: the ground of code, bars of quotes, rules."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QTextBlock, QTextDocument

from app.chat.text.line_boxes import visible_blocks
from app.chat.text.regions import Property, Region, RegionKind
from app.chat.text.styles import CODE_HEADER, CODE_PADDING
from app.theme.theme import current
from app.theme.tokens import RADIUS
from engine.language import tr

_BEYOND = RADIUS + 4
_LOWER = 4
"""Text stands in the lower part of its line; the bar beside it is moved down by so much."""


def region_box(document: QTextDocument, region: Region, width: float) -> QRectF:
    """Return where a region lies in a document of this width."""
    layout = document.documentLayout()
    first = document.findBlockByNumber(region.first)
    last = document.findBlockByNumber(region.last)
    top = layout.blockBoundingRect(first).top() - (CODE_HEADER if is_code(first) else 0)
    bottom = layout.blockBoundingRect(last).bottom() + (CODE_PADDING if is_code(last) else 0)
    rtl = first.textDirection() is Qt.LayoutDirection.RightToLeft
    return QRectF(0 if rtl else region.indent, top, width - region.indent, bottom - top)


def is_code(block: QTextBlock) -> bool:
    """Return whether a text block is a line of a code block."""
    return block.blockFormat().textIndent() < 0


def paint_region(
    painter: QPainter, document: QTextDocument, region: Region, box: QRectF, visible: QRectF
) -> None:
    """Paint what belongs behind the text of a region."""
    tokens = current()
    match region.kind:
        case RegionKind.CODE:
            _paint_code(painter, document, region, box, visible)
            _paint_hooks(painter, document, region, box.intersected(visible))
        case RegionKind.QUOTE:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.border_strong))
            block = document.findBlockByNumber(region.first)
            rtl = block.textDirection() is Qt.LayoutDirection.RightToLeft
            left = box.right() - 3 if rtl else box.left()
            bar = QRectF(left, box.top() + _LOWER, 3, box.height())
            painter.drawRoundedRect(bar, 1.5, 1.5)
        case RegionKind.RULE:
            painter.fillRect(QRectF(box.left(), box.center().y(), box.width(), 1), tokens.border)


def _paint_code(
    painter: QPainter, document: QTextDocument, region: Region, box: QRectF, visible: QRectF
) -> None:
    tokens = current()
    painter.setPen(QColor(tokens.border))
    painter.setBrush(QColor(tokens.sunken))
    # What is far out of sight is cut off: the time goes by the height of what is drawn.
    seen = box.intersected(visible.adjusted(-_BEYOND, -_BEYOND, _BEYOND, _BEYOND))
    painter.drawRoundedRect(seen.adjusted(0.5, 0.5, -0.5, -0.5), RADIUS, RADIUS)
    if visible.top() > box.top() + CODE_HEADER:
        return
    painter.setPen(QColor(tokens.muted))
    font = QFont(document.defaultFont())
    font.setPointSizeF(font.pointSizeF() * 0.85)
    painter.setFont(font)
    strip = QRectF(box.left() + CODE_PADDING, box.top(), box.width() - 60, CODE_HEADER)
    painter.drawText(strip, Qt.AlignmentFlag.AlignVCenter, region.language or tr("text"))


def _paint_hooks(
    painter: QPainter, document: QTextDocument, region: Region, visible: QRectF
) -> None:
    """Paint a hook before every line that goes on from the one above."""
    layout = document.documentLayout()
    painter.setPen(QColor(current().muted))
    painter.setFont(document.defaultFont())
    for block in visible_blocks(document, visible):
        if not region.first <= block.blockNumber() <= region.last:
            continue
        goes_on = block.blockFormat().hasProperty(Property.CONTINUES)
        lines = block.layout()
        first = 0 if goes_on else 1
        if lines.lineCount() <= first:
            continue
        origin = layout.blockBoundingRect(block).topLeft()
        for number in range(first, lines.lineCount()):
            line = lines.lineAt(number)
            at = QPointF(region.indent + CODE_PADDING, origin.y() + line.y() + line.ascent())
            if visible.top() - 40 < at.y() < visible.bottom() + 40:
                painter.drawText(at, "\u21aa")
