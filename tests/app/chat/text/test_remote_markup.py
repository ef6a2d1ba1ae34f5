"""Markup and script in what a server streams: shown as text, run and loaded by nobody."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.text.selection import selected_html, selected_text
from app.chat.text.text_view import TextView
from app.conversations.rich_export import html_of
from app.theme.theme import Theme, ThemeChoice
from engine.commands import Connect
from engine.events import Event, Failed, TextDelta
from engine.remote.answer import RemoteAnswer
from engine.request import ChatRequest, Message, Role

sys.path.insert(0, str(Path(__file__).parents[3] / "engine" / "remote"))
from played_server import DONE, PlayedServer, head, said

HOSTILE = (
    "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n<iframe src='file:///etc/passwd'>\n\n"
    "![p](file:///etc/passwd) ![q](http://127.0.0.1:9/pixel.png) <svg onload=alert(1)>\n\n"
    "[a](javascript:alert(1)) [b](vbscript:x) [c](data:text/html,<script>x</script>) [d](file:///x)\n\n"
    "| <b onclick=x>t</b> | <a href='javascript:x'>u</a> |\n|---|---|\n| <br><img src=y> | c |\n\n"
    "<details open ontoggle=alert(1)>\n\n&lt;script&gt; &#60;img src=z&#62;\n"
)


@pytest.fixture
def answer() -> str:
    """The text that arrives, a few characters at a time."""
    pieces = [HOSTILE[at : at + 7] for at in range(0, len(HOSTILE), 7)]
    server = PlayedServer(lambda _: [head(), *map(said, pieces), said("", "stop"), DONE])
    events: list[Event] = []
    request = ChatRequest("a", (Message(Role.USER, "Hello"),))
    remote = RemoteAnswer(request, Connect(server.url, "m"), events.append, lambda _: None)
    asyncio.run(remote.write())
    server.close()
    assert not [event for event in events if isinstance(event, Failed)]
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def test_markup_in_a_remote_stream(
    answer: str, theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert answer == HOSTILE
    theme.apply(ThemeChoice.LIGHT)
    asked: list[str] = []
    monkeypatch.setattr(TextView, "loadResource", lambda _, _kind, name: asked.append(str(name)))
    view = TextView("Answer")
    qtbot.addWidget(view)
    view.show()
    for at in range(0, len(answer), 11):
        view.append(answer[at : at + 11])
    view.finish()
    view.complete()
    QApplication.processEvents()
    assert asked == []
    shown = view.toPlainText()
    for text in ("<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<details open"):
        assert text in shown
    cursor = QTextCursor(view.document())
    cursor.select(QTextCursor.SelectionType.Document)
    assert "<script>alert(1)</script>" in selected_text(cursor)
    for html in (selected_html(cursor), html_of(answer)):
        for tag in ("<script", "<iframe", "<svg", "<b onclick", "<details", "<img"):
            assert tag not in html.lower()
        for scheme in ("javascript:", "vbscript:", "data:", "file:"):
            assert f'href="{scheme}' not in html.lower()
    assert set(_targets(view)) <= {"http://127.0.0.1:9/pixel.png", "file:///etc/passwd"}


def _targets(view: TextView) -> list[str]:
    """Where the links of the whole text lead."""
    found, block = list[str](), view.document().begin()
    while block.isValid():
        at = block.begin()
        while not at.atEnd():
            if at.fragment().charFormat().isAnchor():
                found.append(at.fragment().charFormat().anchorHref())
            at += 1
        block = block.next()
    return found
