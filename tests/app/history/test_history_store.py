"""The store through its public door, on real files."""

from __future__ import annotations

import copy
import sqlite3
import string
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.history import (
    AnswerState,
    Conversation,
    HistoryStore,
    StoredMessage,
    TokenMarks,
    UndoToken,
)
from engine.events import AnswerStats, Origin, TokenSpan
from engine.request import Role, SamplingParams

STATS = AnswerStats(
    prompt_tokens=12,
    reused_tokens=3,
    committed=40,
    rounds=14,
    plain_rounds=1,
    drafted=50,
    accepted=26,
    drafted_by_depth=(13, 10, 7),
    accepted_by_depth=(11, 9, 6),
    acceptance_length=2.9,
    ttft_s=0.2,
    tokens_per_s=14.5,
    seconds=3.0,
)
SAMPLING = SamplingParams(temperature=0.25, top_p=0.9, seed=2**64 - 1)
MARKS = TokenMarks.of([TokenSpan(5, 0, 2, Origin.DRAFTED), TokenSpan(6, 2, 2, Origin.TARGET)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "deep" / "folder" / "history.sqlite"


def answer(store: HistoryStore, conversation: Conversation, text: str) -> StoredMessage:
    begun = store.answers.begin(
        conversation.id, model="m", sampling=SamplingParams(temperature=0.7, seed=1)
    )
    store.answers.finish(
        begun.id,
        text=text,
        token_ids=(1, 2),
        marks=None,
        state=AnswerState.COMPLETE,
        stats=STATS,
        signature="q4_0/cpu",
    )
    return store.branches.messages(conversation.id)[-1]


def test_round_trip_over_a_restart(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create("Parser bug")
        store.answers.add_user_message(conversation.id, "Why?")
        begun = store.answers.begin(conversation.id, model="tiny", sampling=SAMPLING)
        assert begun.state is AnswerState.INTERRUPTED
        store.pieces.append(begun.id, "Be", [5, 6], MARKS)
        store.pieces.append(begun.id, "cause", [4_000_000_000], MARKS)
        halfway = store.branches.messages(conversation.id)[-1]
        assert (halfway.text, halfway.token_ids) == ("Because", (5, 6, 4_000_000_000))
        store.answers.finish(
            begun.id,
            text="Because.",
            token_ids=(5, 6, 7),
            marks=MARKS,
            state=AnswerState.STOPPED,
            stats=STATS,
            signature="q4_0/cpu",
        )
    with HistoryStore.open(path) as store:
        (found,) = store.conversations.all()
        assert found.title == "Parser bug"
        assert found.updated_at > conversation.updated_at
        user, stored = store.branches.messages(found.id)
    assert (user.role, user.text, user.token_ids) == (Role.USER, "Why?", None)
    assert stored == StoredMessage(
        id=begun.id,
        role=Role.ASSISTANT,
        text="Because.",
        token_ids=(5, 6, 7),
        state=AnswerState.STOPPED,
        stats=STATS,
        sampling=SAMPLING,
        model="tiny",
        signature="q4_0/cpu",
        marks=MARKS,
        parent_id=user.id,
        created_at=begun.created_at,
    )


def test_unknown_token_ids_stay_unknown(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        begun = store.answers.begin(
            conversation.id, model="m", sampling=SamplingParams(temperature=0, seed=0)
        )
        store.answers.finish(
            begun.id,
            text="cut",
            token_ids=None,
            marks=None,
            state=AnswerState.COMPLETE,
            stats=None,
            signature="",
        )
        stored = store.branches.messages(conversation.id)[-1]
        assert stored.token_ids is None
        assert stored.stats is None


def test_newest_conversation_comes_first(path: Path) -> None:
    with HistoryStore.open(path) as store:
        old, middle, new = (store.conversations.create(t) for t in ("old", "middle", "new"))
        assert [c.id for c in store.conversations.all()] == [new.id, middle.id, old.id]
        store.conversations.rename(middle.id, "renamed")
        assert [c.title for c in store.conversations.all()] == ["new", "renamed", "old"]
        store.answers.add_user_message(old.id, "hello again")
        assert store.conversations.all()[0].id == old.id


def test_regenerating_keeps_the_old_answer_as_a_branch(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        question = store.answers.add_user_message(conversation.id, "question")
        answer(store, conversation, "first")
        store.branches.set_leaf(conversation.id, question.id)
        assert store.branches.messages(conversation.id) == [question]
        answer(store, conversation, "second")
        assert [m.text for m in store.branches.messages(conversation.id)] == ["question", "second"]
        rows = store._file.connection.execute("SELECT text, parent_id FROM message ORDER BY id")
        assert rows.fetchall() == [
            ("question", None),
            ("first", question.id),
            ("second", question.id),
        ]


def test_only_answers_can_be_finished_or_grown(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        store.answers.add_user_message(conversation.id, "question")
        done = answer(store, conversation, "done")
        with pytest.raises(LookupError):
            store.pieces.append(done.id, "late", [1], None)
        with pytest.raises(LookupError):
            store.answers.add_user_message(999, "nowhere")
        store.answers.resume(done.id)
        store.pieces.append(done.id, " and on", [3], None)
        resumed = store.branches.messages(conversation.id)[-1]
        assert (resumed.text, resumed.token_ids) == ("done and on", (1, 2, 3))
        assert resumed.state is AnswerState.INTERRUPTED


def test_deletion_can_be_undone_until_the_trash_is_emptied(path: Path) -> None:
    with HistoryStore.open(path) as store:
        kept, gone = store.conversations.create("kept"), store.conversations.create("gone")
        store.answers.add_user_message(kept.id, "precious")
        store.answers.add_user_message(gone.id, "unwanted secret")
        undo = store.trash.delete_conversation(kept.id)
        assert [c.id for c in store.conversations.all()] == [gone.id]
        assert store.search("precious") == []
        store.trash.undelete(undo)
        assert [m.text for m in store.branches.messages(kept.id)] == ["precious"]
        token = store.trash.delete_conversation(gone.id)
    with HistoryStore.open(path) as store:
        store.trash.empty()
    with HistoryStore.open(path) as store:
        assert [c.title for c in store.conversations.all()] == ["kept"]
        with pytest.raises(LookupError):
            store.trash.undelete(token)
    assert b"unwanted secret" not in path.read_bytes()
    assert b"precious" in path.read_bytes()


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    texts=st.lists(
        st.text(alphabet=st.characters() | st.sampled_from("\0\ud83d\ude00")), max_size=4
    ),
    query=st.text(max_size=12),
)
def test_any_text_comes_back(tmp_path: Path, texts: list[str], query: str) -> None:
    with HistoryStore.open(tmp_path / "history.sqlite") as store:
        conversation = store.conversations.create("".join(texts))
        for text in texts:
            store.answers.add_user_message(conversation.id, text)
        expected = [
            text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") for text in texts
        ]
        assert [m.text for m in store.branches.messages(conversation.id)] == expected
        store.search(query)
        for text in expected:
            word = next(iter(text.replace("\0", " ").split()), "")[:8]
            if word:
                found = {hit.message_id for hit in store.search(word, limit=10_000)}
                assert {
                    m.id for m in store.branches.messages(conversation.id) if m.text == text
                } <= found
        store.trash.delete_conversation(conversation.id)


def test_huge_pastes_and_long_answers(path: Path) -> None:
    paste = string.printable * 1_000
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        store.answers.add_user_message(conversation.id, paste + "needle-at-the-end")
        begun = store.answers.begin(
            conversation.id, model="m", sampling=SamplingParams(temperature=0, seed=0)
        )
        for number in range(2_000):
            store.pieces.append(begun.id, "ab ", [number], None)
        question, stored = store.branches.messages(conversation.id)
        assert question.text == paste + "needle-at-the-end"
        assert stored.text == "ab " * 2_000
        assert stored.token_ids == tuple(range(2_000))
        assert [hit.message_id for hit in store.search("needle-at-the-end")] == [question.id]


def test_unreadable_statistics_do_not_hide_the_answer(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        answer(store, conversation, "still here")
        for stats in ("not json", "[]", '{"committed": 3}'):
            store._file.connection.execute("UPDATE message SET stats = ?", (stats,))
            stored = store.branches.messages(conversation.id)[-1]
            assert (stored.text, stored.stats) == ("still here", None)


def test_closing_twice_is_harmless_and_tokens_are_plain(path: Path) -> None:
    store = HistoryStore.open(path)
    assert store.trash.delete_conversation(store.conversations.create().id) == UndoToken(1)
    store.close()
    store.close()
    with pytest.raises(sqlite3.ProgrammingError):
        store.conversations.all()


def test_fields_of_a_stored_message_are_there_whoever_looks_first(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create()
        answer(store, conversation, "text")
        (stored,) = store.branches.messages(conversation.id)
    assert copy.deepcopy(stored) == stored == replace(stored)
    assert repr(stored).startswith("StoredMessage(id=")
    assert hash(replace(stored, text="other")) != hash(stored)
    assert not hasattr(stored, "of_the_future")
    with pytest.raises(FrozenInstanceError):
        stored.text = "other"  # type: ignore[misc]


def test_damaged_letters_do_not_hide_the_rest(path: Path) -> None:
    with HistoryStore.open(path) as store:
        conversation = store.conversations.create("title")
        store.answers.add_user_message(conversation.id, "readable")
        store._file.connection.execute("UPDATE message SET text = CAST(x'61ff62' AS TEXT)")
        assert [m.text for m in store.branches.messages(conversation.id)] == ["a\ufffdb"]
