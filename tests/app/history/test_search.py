"""Search: what is found, where, and that neither queries nor a broken index do harm."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.history import AnswerState, HistorySearch, HistoryStore, Hit, index
from app.history.search_text import fold, ranges, snippet, words_of
from engine.request import SamplingParams


def answer(store: HistoryStore, conversation_id: int, text: str) -> int:
    begun = store.answers.begin(conversation_id, model="m", sampling=SamplingParams())
    finish(store, begun.id, text)
    return begun.id


def finish(store: HistoryStore, message_id: int, text: str) -> None:
    store.answers.finish(
        message_id,
        text=text,
        token_ids=None,
        marks=None,
        state=AnswerState.COMPLETE,
        stats=None,
        signature="",
    )


def places(hits: list[Hit]) -> list[int | str]:
    return [hit.message_id or hit.conversation.title for hit in hits]


def marked(hit: Hit) -> list[str]:
    return [hit.snippet[start:end] for start, end in hit.ranges]


@pytest.fixture(params=["index", "waiting", "no index"])
def store(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[HistoryStore]:
    """With everything indexed, nothing indexed yet, and where SQLite has no index at all."""
    if request.param == "waiting":
        monkeypatch.setattr(index, "take_in", lambda *_: False)
    if request.param == "no index":
        monkeypatch.setattr(index, "create", lambda _: False)
    with HistoryStore.open(tmp_path / "history.sqlite") as store:
        yield store


def test_words_in_titles_questions_and_answers(store: HistoryStore) -> None:
    first = store.conversations.create("Parser bug")
    one = store.answers.add_user_message(
        first.id, "The lookahead is off by one: 100% wrong_name C:\\x"
    ).id
    second = store.conversations.create("Soup")
    two = answer(store, second.id, 'Boil "leeks", 你好世界, and don\'t stop; a AND b NOT c* ÄPFEL')
    assert store._file.upkeep.wait_until_idle()
    finds: dict[str, list[int | str]] = {
        "parser": ["Parser bug"],
        "bug PARS": ["Parser bug"],
        "LOOKAHEAD": [one],
        "lookahead one": [one],
        "lookahead leeks": [],
        "100%": [one],
        "100_": [],
        "wrong_name": [one],
        "C:\\x": [one],
        '"leeks"': [two],
        "don't": [two],
        "世界": [two],
        "世": [two],
        "你好世": [two],
        "äpfel": [two],
        "EL": [two],
        "NOT": [two],
        "c*": [two],
        "le bo": [two],
        "o": ["Soup", two, one],
        "   ": [],
        "nothing-like-this": [],
        "zq": [],
    }
    for query, expected in finds.items():
        assert places(store.search(query)) == expected, query


def test_a_hit_shows_the_words_where_they_are(store: HistoryStore) -> None:
    chat = store.conversations.create("A needle")
    text = "Hay and\n\nhay " * 40 + "then a Needle and\n a\tNEEDLEWORK " + "more hay " * 40
    message = store.answers.add_user_message(chat.id, text)
    (hit,) = store.search("needlework then")
    assert (hit.message_id, marked(hit)) == (message.id, ["then", "NEEDLEWORK"])
    assert " then a Needle and a NEEDLEWORK more " in hit.snippet
    assert hit.snippet.startswith("… ")
    assert hit.snippet.endswith("…")
    assert len(hit.snippet) < 200
    (in_title, in_text) = store.search("needle")
    assert (in_title.message_id, in_title.snippet, marked(in_title)) == (
        *(None, "A needle"),
        ["needle"],
    )
    assert marked(in_text) == ["Needle", "NEEDLE"]
    assert in_text.conversation == store.conversations.all()[0]


def test_other_branches_are_found_thoughts_and_what_is_deleted_are_not(store: HistoryStore) -> None:
    chat = store.conversations.create("chat")
    question = store.answers.add_user_message(chat.id, "question")
    left = answer(store, chat.id, "<think>secret reasoning</think>The open answer")
    store.branches.set_leaf(chat.id, question.id)
    answer(store, chat.id, "another version")
    gone = store.conversations.create("gone answer")
    store.answers.add_user_message(gone.id, "answer")
    store.trash.delete_conversation(gone.id)
    assert store._file.upkeep.wait_until_idle()
    assert places(store.search("answer")) == [left]
    assert store.search("secret") == store.search("think") == []
    token = store.trash.delete_message(left)
    assert store.search("answer") == []
    store.trash.undelete(token)
    assert places(store.search("answer")) == [left]


def test_newest_first_up_to_a_limit(store: HistoryStore) -> None:
    chat = store.conversations.create("chat")
    ids = [store.answers.add_user_message(chat.id, f"word {n}").id for n in range(30)]
    assert store._file.upkeep.wait_until_idle()
    assert places(store.search("word")) == ids[::-1]
    assert places(store.search("word", limit=3)) == ids[:-4:-1]
    assert places(store.search("wo", limit=3)) == ids[:-4:-1]


def test_hostile_queries_are_only_words(store: HistoryStore) -> None:
    chat = store.conversations.create("x")
    store.answers.add_user_message(chat.id, "harmless")
    assert store._file.upkeep.wait_until_idle()
    hostile = [
        *('"', "'", "*", "(", ")", ":", "^", "-", "+", "\\", "%", "_", "\0", "\ud800", "AND"),
        *("NEAR(a b)", "text:harmless", '"unclosed', "'; DROP TABLE message; --", "a\0b"),
        *("OR OR OR", "{", "}", "harm* OR x", "🦊" * 300, "a" * 100_000, "b " * 5_000),
    ]
    for query in hostile:
        assert store.search(query) == []
    assert len(store.search("harmless")) == 1


def test_a_continued_answer_is_found_by_its_new_words(store: HistoryStore) -> None:
    chat = store.conversations.create("chat")
    message = answer(store, chat.id, "the beginning")
    assert store._file.upkeep.wait_until_idle()
    store.answers.resume(message)
    finish(store, message, "the beginning and the ending")
    for _ in range(2):
        assert places(store.search("beginning ending")) == [message]
        assert places(store.search("beginning")) == [message]
        assert store._file.upkeep.wait_until_idle()


def test_what_cannot_be_indexed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index, "_LONGEST", 1_000)
    with HistoryStore.open(tmp_path / "history.sqlite") as store:
        chat = store.conversations.create("chat")
        long = store.answers.add_user_message(chat.id, "hay " * 1_000 + "needle").id
        odd = store.answers.add_user_message(chat.id, "with a\0needle").id
        usual = store.answers.add_user_message(chat.id, "a needle").id
        assert store._file.upkeep.wait_until_idle()
        waiting = store._file.connection.execute(
            "SELECT message_id, never FROM to_index"
        ).fetchall()
        assert waiting == [(long, 1), (odd, 1)]
        assert places(store.search("needle")) == [usual, odd, long]


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    texts=st.lists(st.text("abkKsAB ßẞİıſ\u212aµμσςΣéÉ你好世🦊\0\n", max_size=12), max_size=5),
    query=st.text("absSkAB ßẞİıſ\u212aµμσςΣéÉ你世🦊", max_size=5),
)
def test_the_index_finds_what_reading_everything_finds(
    tmp_path: Path, texts: list[str], query: str
) -> None:
    (path := tmp_path / "history.sqlite").unlink(missing_ok=True)
    with HistoryStore.open(path) as store:
        chat = store.conversations.create()
        written = {store.answers.add_user_message(chat.id, text).id: text for text in texts}
        words = words_of(query)
        expected = [
            number
            for number, text in reversed(written.items())
            if words and all(word in fold(text) for word in words)
        ]
        assert store._file.upkeep.wait_until_idle()
        assert places(store.search(query)) == expected


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=5), max_size=3))
def test_snippets_and_ranges_hold_together(text: str, some: list[str]) -> None:
    words = words_of(" ".join(some))
    shown, found = snippet(text, words)
    assert len(fold(text)) == len(text)
    assert found == ranges(shown, words)
    ends = [place for pair in found for place in pair]
    assert ends == sorted(set(ends))
    assert all(place <= len(shown) for place in ends)


@pytest.mark.parametrize("blocks", ["id > 10", "id > 0"])
def test_a_broken_index_never_costs_a_word(tmp_path: Path, blocks: str) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create()
        first = store.answers.add_user_message(chat.id, "before the damage").id
        assert store._file.upkeep.wait_until_idle()
        store._file.connection.execute(
            f"UPDATE message_group_data SET block = x'00ff00ff00ff00ff' WHERE {blocks}"  # noqa: S608
        )
    found = [first]
    for words in ("between two starts: damage", "after the damage"):
        with HistoryStore.open(path) as store:
            found.insert(0, store.answers.add_user_message(chat.id, words).id)
            assert places(store.search("damage")) == found
            assert store._file.upkeep.wait_until_idle()
            assert places(store.search("damage")) == found
            assert store.branches.messages(chat.id)[-1].text == words
    with HistoryStore.open(path) as store:
        store.trash.delete_message(found[0])
    with HistoryStore.open(path) as store:
        assert places(store.search("damage")) == found[1:]


def test_purged_messages_leave_the_index(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("chat")
        kept = store.answers.add_user_message(chat.id, "kept words").id
        assert store._file.upkeep.wait_until_idle()
        store.trash.delete_message(store.answers.add_user_message(chat.id, "unwanted words").id)
        assert store._file.upkeep.wait_until_idle()
    with HistoryStore.open(path) as store:
        store.trash.empty()
        store.trash.purge()
        run = store._file.connection.execute
        groups = "SELECT rowid FROM message_group WHERE message_group MATCH ?"
        assert run(groups, ("wor",)).fetchall() == [(kept,)]
        assert run(groups, ("unw",)).fetchall() == []


def test_a_worker_searches_beside_the_window_and_can_be_stopped(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("chat")
        ids = [store.answers.add_user_message(chat.id, f"word {n}").id for n in range(300)]
        heard: list[list[int | str]] = []

        def work() -> None:
            with HistorySearch(path) as search:
                heard.append(places(search.search("word", limit=1_000)))
                asked = 0

                def cancelled() -> bool:
                    nonlocal asked
                    asked += 1
                    if asked == 10:
                        search.cancel()
                    return asked > 10

                search._cancelled.is_set = cancelled  # type: ignore[method-assign]
                heard.append(places(search.search("word", limit=1_000)))

        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        new = store.answers.add_user_message(chat.id, "another word").id
        with HistorySearch(path) as search:
            assert places(search.search("word"))[0] == new
    assert heard[0] == ids[::-1]
    assert len(heard[1]) < 12
