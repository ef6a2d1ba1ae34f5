"""Fuzz target for answers on the screen: as they stream and as a whole, copied and exported."""

from __future__ import annotations

import os
from functools import cache
from html.parser import HTMLParser

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtGui import QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication

from app.chat.text.message_source import MessageSource
from app.chat.text.selection import selected_html, selected_text
from app.chat.text.writer import DocumentWriter
from app.conversations.rich_export import html_of
from engine.model.text.thinking import parts

_TAGS = {"p", "table", "tr", "td", "th"}


@cache
def _application() -> QApplication:
    return QApplication.instance() or QApplication([])  # type: ignore[return-value]


class _Tags(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in _TAGS, tag
        assert attrs in ([], [("style", "white-space: pre-wrap")]), attrs


_DRAWING = {"role", "width", "height", "viewbox", "style"}


class _Exported(HTMLParser):
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("img", "script", "iframe", "object"), tag
        told = dict(attrs)
        if tag == "svg":  # a formula
            assert set(told) == _DRAWING, attrs
            assert str(told["style"]).startswith("vertical-align:"), attrs
        assert not any(name.startswith("on") for name in told), attrs
        if "href" in told:
            scheme, colon, _ = str(told["href"]).partition(":")
            assert colon, attrs
            assert scheme.lower() in ("http", "https", "mailto"), attrs


def markdown(data: bytes) -> None:
    """Blocks do not depend on how an answer comes; what is copied holds no markup of its own."""
    _application()
    size, text = 1 + (data[:1] or b"\x02")[0] % 32, data[1:].decode("utf-8", "replace")
    whole, streamed = _fed(text, len(text) or 1), _fed(text, size)
    assert streamed.committed == whole.committed
    assert [t.take() for t in streamed.thoughts] == [t.take() for t in whole.thoughts]
    parts(text)
    shown, live = _shown(whole), _live(text, size)
    assert shown.toPlainText() == live.toPlainText()
    cursor = QTextCursor(shown)
    cursor.select(QTextCursor.SelectionType.Document)
    selected_text(cursor).encode()
    _Tags().feed(selected_html(cursor))
    _Exported().feed(html_of(text))


def _fed(text: str, size: int) -> MessageSource:
    source = MessageSource()
    for at in range(0, len(text), size):
        source.feed(text[at : at + size])
    source.finish()
    return source


def _shown(source: MessageSource) -> QTextDocument:
    document = QTextDocument()
    DocumentWriter(document, source.offsets).update(source.committed, ())
    return document


def _live(text: str, size: int) -> QTextDocument:
    """The document of an answer that was written while it came."""
    source, document, done = MessageSource(), QTextDocument(), 0
    writer = DocumentWriter(document, source.offsets)
    restarts = 0
    for at in [*range(0, len(text), size), -1]:
        source.finish() if at < 0 else source.feed(text[at : at + size])
        if source.restarts != restarts:
            restarts, done = source.restarts, 0
            writer.clear(source.offsets)
        writer.update(source.committed[done:], source.tail)
        done = len(source.committed)
    return document
