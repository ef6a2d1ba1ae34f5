"""What the whole window does: another start, another theme, an engine that is broken, a hit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from desk import Desk
from fake_engine import FakeEngine, Script
from folder_models import FOLDER_TARGET
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QPushButton, QWidget
from pytestqt.qtbot import QtBot

from app.application import Assembly
from app.chat.composer.attachment_chips import AttachmentChips
from app.data_folder.paths import Paths
from app.engine_link.status import Phase
from app.history import AnswerState
from app.notices import report
from app.shell.banner import Banner
from app.theme.theme import Theme, ThemeChoice
from engine.commands import Load
from engine.errors import UserFixable

OpenDesk = Callable[[Script | None], Desk]

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")


def picture(widget: QWidget) -> QImage:
    return widget.grab().toImage()


def test_the_greeting_makes_way_for_what_lies_over_it(desk: Desk) -> None:
    greeting, banners = desk.chat.greeting, desk.banners
    desk.bot.waitUntil(lambda: not desk.assembly.window.isHidden())
    for number in range(3):
        report(UserFixable(f"Trouble {number}.", "Mend it."))
    desk.bot.waitUntil(lambda: banners.height() > 100)
    lowest = banners.mapToGlobal(banners.rect().bottomLeft()).y()
    mark = greeting._mark
    desk.bot.waitUntil(lambda: mark.mapToGlobal(mark.rect().topLeft()).y() > lowest)
    banners.clear()
    desk.bot.waitUntil(lambda: greeting.contentsMargins().top() == 0)


def test_another_start_brings_the_window_forward_with_its_file(
    desk: Desk,
) -> None:
    window = desk.assembly.window
    window.showMinimized()
    desk.assembly.started_again(None)
    assert not window.isMinimized()
    desk.assembly.started_again(FOLDER_TARGET)
    desk.bot.waitUntil(
        lambda: any(
            isinstance(each, Load) and each.model == FOLDER_TARGET for each in desk.script.commands
        )
    )


@pytest.mark.usefixtures("styled")
def test_what_paints_itself_follows_the_theme(desk: Desk, theme: Theme, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    desk.chat.outgoing.attach([tmp_path / "a.txt"])
    report(UserFixable("Something is wrong.", "Mend it."))
    window = desk.assembly.window
    desk.bot.waitUntil(lambda: bool(desk.chat.outgoing.attachments))
    parts = [
        window.findChild(Banner),
        window.findChild(AttachmentChips),
        window.navigation,
        desk.chat.status_line,
    ]
    before = [picture(part) for part in parts if part is not None]
    assert len(before) == len(parts)
    theme.apply(ThemeChoice.DARK)
    try:
        for part, light in zip(parts, before, strict=True):
            assert part is not None
            assert picture(part) != light
    finally:
        theme.apply(ThemeChoice.LIGHT)


def test_an_engine_that_does_not_start_is_told_and_can_be_tried_again(
    theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    script, broken = Script(), True

    def make(emit: Callable[..., None]) -> FakeEngine:
        if broken:
            raise RuntimeError("no such library")
        return FakeEngine(emit, script)

    assembly = Assembly(
        Paths(tmp_path / "data", tmp_path / "config"), theme, make, hub=script.make_hub
    )
    assembly.window.show()
    assembly.start(lambda: script.starter)
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.BROKEN)
    greeting = assembly.window.chat.greeting
    assert greeting._title.text() == "The engine did not start"
    assert "message below" in greeting._line.text()
    assert assembly.bridge.status.words == "The engine did not start"
    banner = assembly.window.findChild(Banner)
    assert banner is not None
    broken = False
    next(b for b in banner.findChildren(QPushButton) if b.text() == "Try again").click()
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.READY)
    assembly.close()
    assembly.window.close()
    assembly.window.deleteLater()


def test_what_can_wait_begins_once_the_engine_is_imported(
    theme: Theme, qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads that import at once keep the window's from the interpreter."""
    script, gate, warmed = Script(), threading.Event(), list[bool]()

    def make(emit: Callable[..., None]) -> FakeEngine:
        assert gate.wait(60)
        return FakeEngine(emit, script)

    monkeypatch.setattr("app.application.warm_up", lambda *_: warmed.append(gate.is_set()))
    assembly = Assembly(
        Paths(tmp_path / "data", tmp_path / "config"), theme, make, hub=script.make_hub
    )
    assembly.window.show()
    assembly.start(lambda: script.starter)
    for _ in range(20):
        assembly.bridge.drain()
        qtbot.wait(1)
    assert warmed == []
    gate.set()
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.READY)
    assert warmed == [True]
    assembly.close()
    assembly.window.close()
    assembly.window.deleteLater()


def test_a_question_is_not_stranded_by_an_engine_that_does_not_start(
    theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    script, gate = Script(), threading.Event()

    def make(_emit: Callable[..., None]) -> FakeEngine:
        gate.wait()
        raise RuntimeError("no such library")

    assembly = Assembly(
        Paths(tmp_path / "data", tmp_path / "config"), theme, make, hub=script.make_hub
    )
    assembly.window.show()
    assembly.start(lambda: script.starter)
    assert assembly.session.send("Hello")
    gate.set()
    qtbot.waitUntil(lambda: assembly.bridge.status.phase is Phase.BROKEN)
    qtbot.waitUntil(lambda: assembly.session.live is None)
    question, answer = assembly.session.messages
    assert (question.text, answer.state) == ("Hello", AnswerState.FAILED)
    assembly.close()
    assembly.window.close()
    assembly.window.deleteLater()


def test_a_hit_opens_its_conversation_at_the_message(desk: Desk) -> None:
    desk.script.answer = "filler\n\n" * 30 + "a needle"
    desk.type_and_send("Question")
    desk.answered()
    found = desk.session.current
    desk.session.open(None)
    sidebar = desk.assembly.window.sidebar
    sidebar.search.setText("needle")
    desk.bot.waitUntil(lambda: sidebar.hits.isVisible() and bool(sidebar.hits.found.rows))
    sidebar.hits.choose(9)  # there is none
    sidebar.hits.choose(1)  # the first one is the conversation itself
    assert desk.session.current is not None
    assert found is not None
    assert desk.session.current.id == found.id
    desk.bot.waitUntil(lambda: desk.chat.transcript.settled)
    answer = desk.chat.transcript.last_answer()
    assert answer is not None
    assert answer.text.marks.any


def test_several_files_would_be_attached(desk: Desk, tmp_path: Path) -> None:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(tmp_path / name)) for name in ("a.txt", "b.txt")])
    assert desk.assembly.window._drop_words(data) == "Drop to attach to your message"


def test_settings_that_could_not_be_read_are_told(open_desk: OpenDesk, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "settings.toml").write_text("no = [toml")
    desk = open_desk(None)
    assert any("settings" in text.lower() for text in desk.banners.texts)
