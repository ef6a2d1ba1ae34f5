"""Conversations as HTML and PDF: to read and to print, not to be imported again."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMarginsF, QUrl
from PySide6.QtGui import QPageLayout, QPageSize, QPdfWriter, QTextDocument

_FEATURES = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub
    | QTextDocument.MarkdownFeature.MarkdownNoHTML
)
_MARGIN_MM = 18.0
_DPI = 300


class _Page(QTextDocument):
    """A text that loads nothing: it could name any file or address."""

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:  # noqa: N802
        return None


def document_of(markdown: str) -> QTextDocument:
    """Return a typeset text."""
    page = _Page()
    page.setMarkdown(markdown, _FEATURES)
    return page


def html_of(markdown: str) -> str:
    """Return a whole page of HTML."""
    return document_of(markdown).toHtml()


def write_pdf(path: Path, markdown: str, title: str) -> None:
    """Write a PDF of A4 pages."""
    writer = QPdfWriter(str(path))
    writer.setTitle(title)
    writer.setResolution(_DPI)
    size, margins = QPageSize(QPageSize.PageSizeId.A4), QMarginsF(*[_MARGIN_MM] * 4)
    writer.setPageLayout(
        QPageLayout(size, QPageLayout.Orientation.Portrait, margins, QPageLayout.Unit.Millimeter)
    )
    page = document_of(markdown)
    page.documentLayout().setPaintDevice(writer)
    page.setPageSize(writer.pageLayout().paintRectPixels(_DPI).size().toSizeF())
    page.print_(writer)
