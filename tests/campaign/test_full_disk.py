"""The drive fills up, or goes away, at any moment of an answer: whatever was shown is kept."""

from __future__ import annotations

import random
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

sys.path.insert(0, str(Path(__file__).parents[1] / "app"))
from desk import Desk, PatientBot
from fake_engine import FakeEngine, Script

from app.application import Assembly
from app.data_folder.paths import Paths
from app.history import HistoryStore
from app.theme.theme import Theme

if sys.platform != "win32":
    import resource

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support")

WORDS = ("a", "tale", "of", "one", "and", "three", "small", "boats", "on", "a", "wide", "sea", "")
FAULTS = ["full", *([] if sys.platform == "win32" else ["no file grows", "moved", "deleted"])]


@pytest.fixture
def desk(qapp: QApplication, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    script = Script(pace_s=0.001)
    theme = Theme(qapp)
    assembly = Assembly(
        Paths(tmp_path / "data", tmp_path / "config"),
        theme,
        lambda emit: FakeEngine(emit, script),
        hub=script.make_hub,
    )
    assembly.window.show()
    assembly.start(lambda: script.starter)
    desk = Desk(assembly, script, PatientBot(request))
    desk.ready()
    yield desk
    assembly.close()
    assembly.window.close()
    assembly.window.deleteLater()
    qapp.styleHints().colorSchemeChanged.disconnect(theme._system_changed)  # not in later tests
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


@contextmanager
def fault(desk: Desk, kind: str) -> Iterator[None]:
    """The drive takes nothing, or is not there, while the context lasts."""
    data, connection = desk.assembly.paths.data, desk.assembly.store._file.connection
    if kind == "full":
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
        yield
        connection.execute("PRAGMA max_page_count = 1000000")
    elif kind == "no file grows":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    elif kind == "moved":
        aside = data.rename(data.with_name("aside"))
        yield
        aside.rename(data)
    else:
        shutil.rmtree(data)
        yield
        data.mkdir()


def shown(desk: Desk) -> dict[int, str]:
    """The text of every message of the conversation on show."""
    live = desk.session.live
    texts = {message.id: message.text for message in desk.session.messages}
    return texts | ({live.base.id: live.message.text} if live is not None else {})


def kept(desk: Desk, aside: Path) -> dict[int, str]:
    """What is found in the files by whoever opens them after this moment's kill."""
    history, copy = desk.assembly.paths.history, aside / "copy.sqlite3"
    for suffix in ("", "-wal"):
        shutil.copy(history.with_name(history.name + suffix), copy.with_name(copy.name + suffix))
    with HistoryStore.open_read_only(copy) as store:
        chats = [store.branches.messages(each.id) for each in store.conversations.all()]
    return {message.id: message.text for messages in chats for message in messages}


@pytest.mark.release(reason="every moment", keep=5)
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("kind", FAULTS)
def test_no_text_that_was_shown_is_lost(desk: Desk, tmp_path: Path, kind: str, seed: int) -> None:
    """A moment before, in or after an answer; the user goes on in some way; then there is room."""
    dice, seen = random.Random(f"{kind} {seed}"), dict[int, str]()
    session = desk.session

    def look() -> None:
        seen.update(shown(desk))

    def come_to(words: int) -> None:
        desk.bot.waitUntil(lambda: session.live is None or len(session.live.text.split()) >= words)
        look()

    for _ in range(2):
        desk.script.answer = " ".join(dice.choices(WORDS, k=dice.randint(20, 400)))
        words = len(desk.script.answer.split())
        desk.type_and_send(" ".join(dice.choices(WORDS, k=dice.randint(1, 60))))
        come_to(dice.randint(0, words))
        with fault(desk, kind):
            come_to(dice.randint(0, words))
            act = dice.choice(["wait", "stop", "end", "look elsewhere", "ask more"])
            if act == "stop":
                session.stop()
            if act in ("stop", "end", "ask more"):
                desk.bot.waitUntil(lambda: session.live is None)
                look()
            if act == "look elsewhere":
                here = session.current
                session.open(None)
                session.open(here)
                look()
            if act == "ask more":
                session.send(" ".join(dice.choices(WORDS, k=2000)))
                look()
            if dice.random() < 0.5:
                session.writer.saving.settle()
        desk.bot.waitUntil(lambda: session.live is None)
        session.writer.saving.settle()
        look()
        assert not session.writer.saving.owes
        found = kept(desk, tmp_path)
        assert {number: found.get(number) for number in seen} == seen
