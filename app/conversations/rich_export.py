"""Conversations as HTML and PDF: to read and to print, not to be imported again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QMarginsF, QUrl
from PySide6.QtGui import (
    QPageLayout,
    QPageSize,
    QPdfWriter,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
)

_FEATURES = (
    QTextDocument.MarkdownFeature.MarkdownDialectGitHub
    | QTextDocument.MarkdownFeature.MarkdownNoHTML
)
_ADDRESSES = {"http", "https", "mailto"}
_MARGIN_MM = 18.0
_DPI = 300


class _Page(QTextDocument):
    """A text that loads nothing: it could name any file or address."""

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:  # noqa: N802
        return None


def document_of(markdown: str) -> QTextDocument:
    """Return a typeset text, in which a click runs nothing and opening it loads nothing."""
    page = _Page()
    page.setMarkdown(markdown, _FEATURES)
    cursor = QTextCursor(page)
    for start, end, style in reversed(list(_stretches(page))):
        address = style.anchorHref()
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        if style.isImageFormat():
            address = style.toImageFormat().name()
            words = style.stringProperty(QTextFormat.Property.ImageAltText) or address
            cursor.insertText(words, _leading_to(address))
        elif address and QUrl(address).scheme().lower() not in _ADDRESSES:
            cursor.setCharFormat(_leading_to(address))
    return page


def _leading_to(address: str) -> QTextCharFormat:
    """The look of a link, if it leads to the web or to mail; else of plain text."""
    style = QTextCharFormat()
    if QUrl(address).scheme().lower() in _ADDRESSES:
        style.setAnchor(True)
        style.setAnchorHref(address)
        style.setFontUnderline(True)
    return style


def _stretches(page: QTextDocument) -> Iterator[tuple[int, int, QTextCharFormat]]:
    """Yield stretches of one format: begin, end, format; pictures among them."""
    block = page.begin()
    while block.isValid():
        at = block.begin()
        while not at.atEnd():
            found = at.fragment()
            yield found.position(), found.position() + found.length(), found.charFormat()
            at += 1
        block = block.next()


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
