"""Files of older versions, made by the statements of their time, are brought up to date."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.history import AnswerState, ChatSetup, HistoryStore
from app.history.database import connect
from app.history.schema import MIGRATIONS
from engine.request import Role, SamplingParams


@pytest.fixture
def version_1(tmp_path: Path) -> Path:
    """A conversation with two versions of an answer, one of them cut off by a crash."""
    path = tmp_path / "history.sqlite"
    connection = connect(path, MIGRATIONS[:1], ())
    run = connection.execute
    run("INSERT INTO conversation VALUES (7, 'Parser bug', 1.0, 2.0, NULL, 3)")
    rows = [
        (1, 7, None, "user", "Why?", None, "complete", None, "", 0, 0.0, "", 1.0, 1),
        (2, 7, 1, "assistant", "No.", b"\1\0\0\0", "complete", None, "m", -1, 0.7, "s", 1.5, 1),
        (3, 7, 1, "assistant", "", b"", "interrupted", None, "m", 5, 0.1 + 0.2, "", 2.0, 0),
    ]
    places = ",".join("?" * 14)
    connection.executemany(f"INSERT INTO message VALUES ({places})", rows)  # noqa: S608
    run("INSERT INTO answer_piece VALUES (1, 3, 'Because', ?)", (b"\2\0\0\0",))

    connection.close()
    return path


def test_version_1_keeps_every_word_and_every_draw(version_1: Path) -> None:
    with HistoryStore.open(version_1) as store:
        (conversation,) = store.conversations.all()
        assert (conversation.title, conversation.updated_at) == ("Parser bug", 2.0)
        assert (conversation.folder_id, conversation.pinned) == (None, False)
        assert conversation.setup == ChatSetup()
        question, second = store.branches.messages(7)
        assert (question.role, question.text, question.created_at) == (Role.USER, "Why?", 1.0)
        assert (second.text, second.token_ids, second.state) == (
            *("Because", (2,)),
            AnswerState.INTERRUPTED,
        )
        assert second.sampling == SamplingParams(temperature=0.1 + 0.2, seed=5)
        assert (second.marks, second.version, second.versions) == (None, 2, 2)
        store.branches.show_version(second.id, -1)
        first = store.branches.messages(7)[-1]
        assert (first.text, first.version, first.versions) == ("No.", 1, 2)
        assert first.sampling == SamplingParams(temperature=0.7, seed=2**64 - 1)
        store.folders.put(7, store.folders.create("Work").id)
        store.trash.delete_message(first.id)
        assert store.branches.messages(7)[-1].id == second.id
