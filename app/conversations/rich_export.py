"""Conversations as HTML and PDF: to read and to print, not to be imported again."""

from __future__ import annotations

from html import escape
from pathlib import Path

from PySide6.QtCore import QMarginsF, QPointF, QUrl
from PySide6.QtGui import (
    QColor,
    QFontInfo,
    QPageLayout,
    QPageSize,
    QPainter,
    QPdfWriter,
    QTextDocument,
)

from app.markdown.formula_object import FormulaObject, paint_formulas
from app.markdown.html import html_body
from app.markdown.maths.boxes import Box
from app.markdown.maths.drawing import as_svg, as_text
from app.markdown.typeset_text import set_markdown

_MARGIN_MM = 18.0
_DPI = 300
_POINTS_PER_INCH = 72
_LINES = """
table { border-collapse: collapse; border: 1px solid #999999 }
th, td { border: 1px solid #999999; padding: 3px 6px }
pre { background-color: #f2f2f2; white-space: pre-wrap }
pre, code { font-family: monospace }
"""
"""Styles that Qt understands, too."""
_STYLE = f"""
body {{ max-width: 46em; margin: 2em auto; padding: 0 1em }}
body {{ font-family: sans-serif; line-height: 1.5 }}
pre {{ padding: 0.7em }}
blockquote {{ margin-left: 0; padding-left: 1em; border-left: 3px solid #999999 }}
{_LINES}"""


class _Page(QTextDocument):
    """A text that loads nothing: it could name any file or address."""

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:  # noqa: N802
        return None


class _PrintedFormula(FormulaObject):
    """A formula whose LaTeX is written over it, unseen: it can be searched for and copied."""

    def draw(self, painter: QPainter, box: Box, latex: str, colour: QColor) -> None:
        """Draw outlines, which hold no text of their own."""
        painter.fillPath(box.outline(), colour)
        painter.setPen(QColor(0, 0, 0, 0))
        painter.drawText(QPointF(), latex)


def html_of(markdown: str, title: str = "") -> str:
    """Return a whole page of HTML, in which a click runs nothing and opening it loads nothing."""

    def formula(latex: str, display: bool) -> str:
        text = as_text(latex)
        if text is None:
            return as_svg(latex, display=display)
        return f'<span title="{escape(latex)}">{text}</span>'

    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{html_body(markdown, formula)}</body></html>\n"
    )


def write_pdf(path: Path, markdown: str, title: str) -> None:
    """Write a PDF of A4 pages, in which formulas are drawings."""
    writer = QPdfWriter(str(path))
    writer.setTitle(title)
    writer.setResolution(_DPI)
    size, margins = QPageSize(QPageSize.PageSizeId.A4), QMarginsF(*[_MARGIN_MM] * 4)
    writer.setPageLayout(
        QPageLayout(size, QPageLayout.Orientation.Portrait, margins, QPageLayout.Unit.Millimeter)
    )
    page = _page(markdown)
    page.documentLayout().setPaintDevice(writer)
    page.setPageSize(writer.pageLayout().paintRectPixels(_DPI).size().toSizeF())
    page.print_(writer)


def _page(markdown: str) -> QTextDocument:
    """Return a typeset text for a device of `_DPI`."""
    page = _Page()
    page.setDefaultStyleSheet(_LINES)
    paint_formulas(page, _PrintedFormula(page))
    points = QFontInfo(page.defaultFont()).pointSizeF()
    set_markdown(page, markdown, round(points * _DPI / _POINTS_PER_INCH))
    return page
