"""Searching beside the window."""

from __future__ import annotations

import threading

import pytest
from pytestqt.qtbot import QtBot

from app.conversations.finder import FileSearcher, Finder
from app.history import Conversation, HistoryStore, Hit
from app.history.searcher import HistorySearch
from app.notices import Notice
from engine.errors import UserFixable


class SlowSearcher:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled = 0
        self.gate = threading.Semaphore(0)
        self.threads: set[int] = set()

    def search(self, query: str) -> list[Hit]:
        self.asked.append(query)
        self.threads.add(threading.get_ident())
        self.gate.acquire()
        if query == "trouble":
            raise UserFixable("The drive is gone.", "Plug it in.")
        return [Hit(Conversation(1, query, 0.0), None, query, ())]

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.fixture
def searcher() -> SlowSearcher:
    return SlowSearcher()


@pytest.fixture
def finder(searcher: SlowSearcher, qtbot: QtBot) -> Finder:  # noqa: ARG001
    return Finder(searcher)


def test_the_newest_words_win(finder: Finder, searcher: SlowSearcher, qtbot: QtBot) -> None:
    found: list[str] = []
    finder.found.connect(lambda query, hits: found.append(f"{query} {len(hits)}"))
    finder.look_for("a")
    finder.look_for("al")
    finder.hurry()
    qtbot.waitUntil(lambda: searcher.asked == ["al"])
    finder.look_for("  alpha ")
    assert searcher.cancelled == 1
    finder.hurry()
    searcher.gate.release()
    qtbot.waitUntil(lambda: searcher.asked == ["al", "alpha"])
    assert finder.busy
    searcher.gate.release()
    qtbot.waitUntil(lambda: not finder.busy)
    assert found == ["alpha 1"]
    assert threading.get_ident() not in searcher.threads


def test_what_was_cleared_is_not_shown(
    finder: Finder, searcher: SlowSearcher, qtbot: QtBot
) -> None:
    found: list[object] = []
    finder.found.connect(lambda *arguments: found.append(arguments))
    finder.look_for("a")
    finder.hurry()
    finder.look_for(" ")
    searcher.gate.release()
    qtbot.waitUntil(lambda: not finder.busy)
    assert found == []


def test_a_change_during_the_search_is_searched_too(
    finder: Finder, searcher: SlowSearcher, qtbot: QtBot
) -> None:
    found: list[object] = []
    finder.found.connect(lambda *arguments: found.append(arguments))
    finder.look_for("a")
    finder.hurry()
    qtbot.waitUntil(lambda: searcher.asked == ["a"])
    finder.again()
    searcher.gate.release(2)
    qtbot.waitUntil(lambda: len(found) == 1)
    assert searcher.asked == ["a", "a"]


def test_trouble_is_told(
    finder: Finder, searcher: SlowSearcher, qtbot: QtBot, notices: list[Notice]
) -> None:
    searcher.gate.release()
    finder.look_for("trouble")
    finder.hurry()
    qtbot.waitUntil(lambda: bool(notices))
    assert notices[0].text == "The drive is gone."
    assert not finder.busy


def test_the_file_is_searched_next_to_the_open_store(store: HistoryStore) -> None:
    made = store.conversations.create("Letters")
    store.answers.add_user_message(made.id, "A question about Größe\nand more")
    searcher = FileSearcher(store.path)
    hits: list[Hit] = []
    thread = threading.Thread(target=lambda: hits.extend(searcher.search("größe question")))
    thread.start()
    thread.join()
    searcher.cancel()  # nothing is going on: nothing happens
    (hit,) = hits
    assert hit.message_id is not None
    assert [hit.snippet[start:end] for start, end in hit.ranges] == ["question", "Größe"]


def test_a_search_of_the_file_is_cancelled(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = store.conversations.create("Letters")
    store.answers.add_user_message(made.id, "words")
    searcher = FileSearcher(store.path)
    assert searcher.search("words")
    search = HistorySearch.search

    def cancelled(going: HistorySearch, query: str) -> list[Hit]:
        going._connection.set_progress_handler(searcher.cancel, 1)
        return search(going, query)

    monkeypatch.setattr(HistorySearch, "search", cancelled)
    assert searcher.search("words") == []
