"""Taking conversations away and bringing them along, from us and from others."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.history import AnswerState, ChatSetup, Conversation, HistoryStore, TokenMarks, foreign
from app.history.exchange import LONGEST_TEXT, export_json, import_text
from app.history.message import StoredMessage
from app.history.trees import Tree, beside
from engine.errors import UserFixable
from engine.events import AnswerStats, Origin, TokenSpan
from engine.model.text.thinking import parts
from engine.request import Role, SamplingParams

MARKS = TokenMarks.of([TokenSpan(5, 0, 2, Origin.DRAFTED), TokenSpan(6, 2, 3, Origin.TARGET)])
STATS = AnswerStats(12, 3, 40, 14, 1, 50, 26, (13, 10), (11, 9), 2.9, 0.2, None, 3.0)


def said(store: HistoryStore, conversation: Conversation) -> list[tuple[str, str]]:
    return [(str(m.role), m.text) for m in store.branches.messages(conversation.id)]


def only(store: HistoryStore, data: object) -> Conversation:
    imported = import_text(store.trees, json.dumps(data))
    assert imported.left_out == 0
    (conversation,) = imported
    return conversation


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    messages: list[StoredMessage] = []
    for number in range(1, draw(st.integers(0, 8)) + 1):
        parent = draw(st.sampled_from([None, *range(1, number)]))
        message = StoredMessage(
            number, Role.USER, draw(_TEXTS), parent_id=parent, created_at=1e9 + number
        )
        if draw(st.booleans()):
            message = replace(
                message,
                role=Role.ASSISTANT,
                token_ids=draw(
                    st.none() | st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple)
                ),
                state=draw(st.sampled_from(AnswerState)),
                stats=draw(st.sampled_from([None, STATS])),
                sampling=SamplingParams(0.1 + 0.2, seed=draw(st.integers(0, 2**64 - 1))),
                model=draw(_TEXTS),
                signature=draw(_TEXTS),
                marks=draw(st.sampled_from([None, MARKS, TokenMarks()])),
                varied=draw(st.booleans()),
            )
        messages.append(message)
    setup = ChatSetup(
        draw(_TEXTS), temperature=0.7, seed=3, thinking=draw(st.none() | st.booleans())
    )
    leaf = draw(st.sampled_from([m.id for m in messages])) if messages else None
    setup = replace(setup, seen_after=leaf)
    conversation = Conversation(0, draw(_TEXTS), 1.5e9, None, draw(st.booleans()), setup)
    return Tree(conversation, tuple(messages), leaf, draw(_TEXTS))


def bare(tree: Tree) -> Tree:
    """The same with ids from 1, as they are in no file."""
    ids = {message.id: place for place, message in enumerate(tree.messages, start=1)}
    told = tree.conversation
    return Tree(
        replace(
            told,
            id=0,
            folder_id=None,
            setup=replace(told.setup, seen_after=ids.get(told.setup.seen_after or 0)),
        ),
        tuple(replace(m, id=ids[m.id], parent_id=ids.get(m.parent_id or 0)) for m in tree.messages),
        ids.get(tree.leaf or 0),
        tree.folder,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(trees(), min_size=1, max_size=3))
def test_whole_trees_come_back_as_they_were(tmp_path: Path, originals: list[Tree]) -> None:
    (path := tmp_path / "history.sqlite").unlink(missing_ok=True)
    with HistoryStore.open(path) as store:
        first = store.trees.add(originals)
        assert [bare(store.trees.tree(each.id)) for each in first] == originals
        text = export_json(store.trees, [each.id for each in first])
        imported = import_text(store.trees, text)
        assert imported.left_out == 0
        assert [bare(store.trees.tree(each.id)) for each in imported] == originals
        listed = {each.id: each for each in store.conversations.all()}
        assert all(listed[each.id] == each for each in [*first, *imported])
        folders = [folder.name for folder in store.folders.all()]
        assert len(folders) == len(set(folders))


def test_messages_of_openai_s_api(store: HistoryStore) -> None:
    request = {
        "model": "gpt-4",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "image_url"}]},
            {"role": "assistant", "content": "Hello!"},
        ],
    }
    for data in (request, [request], request["messages"]):
        conversation = only(store, data)
        assert said(store, conversation) == [("user", "Hi"), ("assistant", "Hello!")]
        assert conversation.setup.system_prompt == "Be brief."
    lines = "\n".join(json.dumps(request) for _ in range(3)) + "\n\n{broken"
    imported = import_text(store.trees, lines)
    assert (len(imported), imported.left_out) == (3, 1)
    assert imported.said == (
        "3 conversations were imported. 1 part of the file could not be read and was left out."
    )


def test_shared_conversations_with_from_and_value(store: HistoryStore) -> None:
    turns = [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello!"}]
    assert said(store, only(store, [{"conversations": turns}])) == [
        ("user", "Hi"),
        ("assistant", "Hello!"),
    ]


def chatgpt_node(
    key: str, parent: str | None, role: str, text: str, when: float
) -> dict[str, object]:
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "content": content, "create_time": when}
    return {"id": key, "parent": parent, "children": [], "message": message}


def test_the_export_of_chatgpt_keeps_its_branches(store: HistoryStore) -> None:
    nodes = [
        {"id": "root", "parent": None, "message": None},
        chatgpt_node("s", "root", "system", "", 1.7e9),
        chatgpt_node("q", "s", "user", "Why?", 1.7e9),
        chatgpt_node("a1", "q", "assistant", "Because.", 1.7e9 + 1),
        chatgpt_node("a2", "q", "assistant", "No reason.", 1.7e9 + 2),
        chatgpt_node("q2", "a1", "user", "Thanks", 1.7e9 + 3),
    ]
    chat = {
        "title": "A reason",
        "update_time": 1.7e9 + 4,
        "current_node": "q2",
        "mapping": {node["id"]: node for node in nodes},
    }
    conversation = only(store, [chat])
    assert (conversation.title, conversation.updated_at) == ("A reason", 1.7e9 + 4)
    shown = [(m.text, m.version, m.versions) for m in store.branches.messages(conversation.id)]
    assert shown == [("Why?", 1, 1), ("Because.", 1, 2), ("Thanks", 1, 1)]
    answer = store.branches.messages(conversation.id)[1]
    store.branches.show_version(answer.id, +1)
    assert store.branches.messages(conversation.id)[-1].text == "No reason."


def test_the_export_of_open_webui(store: HistoryStore) -> None:
    nodes = {
        "1": {"id": "1", "parentId": None, "role": "user", "content": "Hi", "timestamp": 1.7e9},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": "A", "model": "qwen"},
        "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "B", "model": "qwen"},
    }
    chat = {"title": "Chat", "history": {"messages": nodes, "currentId": "2"}}
    conversation = only(store, [{"id": "x", "updated_at": 1_700_000_000_000, "chat": chat}])
    assert conversation.updated_at == 1.7e9
    assert said(store, conversation) == [("user", "Hi"), ("assistant", "A")]
    assert store.branches.messages(conversation.id)[-1].model == "qwen"
    flat = {"chat": {"title": "Flat", "messages": list(nodes.values())}}
    assert len(store.branches.messages(only(store, flat).id)) == 3


def test_thoughts_and_tools_of_open_webui_are_folded(store: HistoryStore) -> None:
    content = (
        (
            '<details type="reasoning" done="true">\n<summary>Thought for 5 s</summary>\n'
            "&gt; 1 &lt; 2,\n&gt; so yes\n</details>\n\nYes.\n"
            '<details type="tool_calls" done="true" name="add" arguments="{&quot;a&quot;: 1}" '
            'result="2">\n<summary>Done</summary>\n</details>\nTwo. <details>kept</details>'
        )
        .replace("&gt; 1", "> 1")
        .replace("&gt; so", "> so")
    )
    turns = [{"role": "user", "content": "Hm?"}, {"role": "assistant", "content": content}]
    (_, (_, text)) = said(store, only(store, {"chat": {"messages": turns}}))
    thought, said_text = parts(text)
    assert "1 < 2,\nso yes" in thought
    assert "`add`" in thought
    assert '{"a": 1}' in thought
    assert said_text == "Yes.\nTwo. <details>kept</details>"


def test_reasoning_content_becomes_a_thought(store: HistoryStore) -> None:
    turns = [
        {"role": "user", "content": "Hm?"},
        {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."},
    ]
    assert said(store, only(store, turns))[1] == ("assistant", "<think>\nHm.\n</think>\n\nYes.")


def test_the_export_of_lm_studio(store: HistoryStore) -> None:
    def text(words: str) -> dict[str, object]:
        return {"type": "text", "text": words}

    thinking = {"type": "contentBlock", "content": [text("Hm.")], "style": {"type": "thinking"}}
    first = {
        "type": "multiStep",
        "role": "assistant",
        "senderInfo": {"senderName": "qwen3-8b"},
        "steps": [thinking, {"type": "contentBlock", "content": [text("Blue.")]}],
    }
    second = {**first, "steps": [{"type": "contentBlock", "content": [text("Grey.")]}]}
    asked = {"type": "singleStep", "role": "user", "content": [text("The sky?")]}
    thanks = {"type": "singleStep", "role": "user", "content": [text("Thanks")]}
    chat = {
        "name": "Sky",
        "createdAt": 1_700_000_000_000,
        "systemPrompt": "Be brief.",
        "messages": [
            {"versions": [asked], "currentlySelected": 0},
            {"versions": [first, second], "currentlySelected": 0},
            {"versions": [thanks], "currentlySelected": 0},
        ],
    }
    conversation = only(store, chat)
    assert conversation.title == "Sky"
    assert conversation.setup.system_prompt == "Be brief."
    shown = [(m.text, m.versions, m.model) for m in store.branches.messages(conversation.id)]
    assert shown == [
        ("The sky?", 1, ""),
        ("<think>\nHm.\n</think>\n\nBlue.", 2, "qwen3-8b"),
        ("Thanks", 1, ""),
    ]


def test_a_thread_of_jan(store: HistoryStore) -> None:
    lines = [
        {
            "id": str(number),
            "thread_id": "t",
            "role": role,
            "content": [{"type": "text", "text": {"value": words, "annotations": []}}],
            "created_at": 1_700_000_000_000 + number,
        }
        for number, (role, words) in enumerate([("user", "Hi"), ("assistant", "Hello!")])
    ]
    (conversation,) = import_text(store.trees, "\n".join(map(json.dumps, lines)))
    assert said(store, conversation) == [("user", "Hi"), ("assistant", "Hello!")]


def test_the_export_of_claude(store: HistoryStore) -> None:
    def entry(key: str, parent: str, sender: str, *content: object, **more: object) -> object:
        return {
            "uuid": key, "parent_message_uuid": parent, "sender": sender, "text": "",
            "content": list(content), "created_at": "2026-05-01T10:00:00.000000Z", **more,
        }  # fmt: skip

    chat = {
        "uuid": "c",
        "name": "Numbers",
        "updated_at": "2026-05-02T10:00:00Z",
        "chat_messages": [
            entry(
                "q", "00000000", "human", {"type": "text", "text": "Sum?"},
                attachments=[{"file_name": "a.csv", "extracted_content": "1,2"}],
            ),
            entry(
                "a", "q", "assistant",
                {"type": "thinking", "thinking": "Add them."},
                {"type": "tool_use", "name": "calc", "input": {"x": "1+2"}},
                {"type": "tool_result", "name": "calc", "content": [{"type": "text", "text": "3"}]},
                {"type": "text", "text": "Three."},
            ),
            entry("b", "q", "assistant", {"type": "text", "text": "3"}),
        ],
    }  # fmt: skip
    conversation = only(store, [chat])
    assert conversation.title == "Numbers"
    question, answer = store.branches.messages(conversation.id)
    assert question.text.startswith("`a.csv`:\n```\n1,2\n```")
    assert question.text.endswith("Sum?")
    assert (answer.text, answer.version, answer.versions) == ("3", 2, 2)
    store.branches.show_version(answer.id, -1)
    thought, words = parts(store.branches.messages(conversation.id)[-1].text)
    assert words == "Three."
    assert thought.startswith("Add them.")
    assert "1+2" in thought
    assert thought.index("1+2") < thought.index("3", thought.index("1+2") + 3)


def test_what_chatgpt_said_to_its_tools_is_folded_and_its_marks_are_removed(
    store: HistoryStore,
) -> None:
    code = chatgpt_node("c", "q", "assistant", "print(1 + 1)", 1.7e9)
    code["message"] |= {"recipient": "python"}  # type: ignore[operator]
    result = chatgpt_node("r", "c", "tool", "2", 1.7e9)
    result["message"]["author"]["name"] = "python"  # type: ignore[index]
    mark = "\ue200cite\ue202turn0search0\ue201"
    nodes = [
        chatgpt_node("q", None, "user", "1 + 1?", 1.7e9),
        code,
        result,
        chatgpt_node("a", "r", "assistant", f"It is 2.{mark}", 1.7e9),
    ]
    chat = {"title": "x", "current_node": "a", "mapping": {node["id"]: node for node in nodes}}
    imported = import_text(store.trees, json.dumps([chat]))
    (_, (_, text)) = said(store, imported[0])
    thought, words = parts(text)
    assert words == "It is 2."
    assert thought == "`python`\n```\nprint(1 + 1)\n```\n\n`python`\n```\n2\n```"
    assert (imported.left_out, imported.marks) == (0, 1)
    assert "1 reference that leads nowhere was removed." in imported.said


@pytest.mark.parametrize(
    "text",
    [
        *("", "nonsense", "{}", "[]", "null", "3", '"text"', "[1, 2]", "[" * 100_000),
        *('{"messages": []}', '{"messages": [1]}', '{"mapping": {}}', '{"chat": {}}'),
        '{"mapping": {"a": {"parent": "b", "message": {}}, "b": {"parent": "a"}}}',
        '{"messages": [{"role": "tool", "content": "x"}]}',
    ],
)
def test_what_holds_no_conversation_is_refused_in_words(store: HistoryStore, text: str) -> None:
    with pytest.raises(UserFixable, match="No conversation was found"):
        import_text(store.trees, text)
    assert store.conversations.all() == []


def test_a_newer_export_and_a_huge_file_are_refused(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserFixable, match="newer version"):
        import_text(store.trees, '{"format": "duotail-conversations", "version": 2}')
    monkeypatch.setattr("app.history.exchange._LONGEST_FILE", 10)
    with pytest.raises(UserFixable, match="too large"):
        import_text(store.trees, "[" + " " * 10 + "]")


def test_what_is_good_in_a_bad_file_is_kept(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "LONGEST_TEXT", 100)
    circle = {
        "a": chatgpt_node("a", "b", "user", "x", 1),
        "b": chatgpt_node("b", "a", "user", "y", 1),
    }
    fine = chatgpt_node("c", "gone", "user", "fine", 10**400)
    data = [
        {"messages": [{"role": "user", "content": "Hi"}, {"role": "narrator", "content": "x"}, 7]},
        {"messages": [{"role": ["odd"], "content": "x"}, {"role": "user", "content": "y" * 101}]},
        {"mapping": {**circle, "c": fine}, "current_node": ["odd"]},
        {"unknown": 1},
        {"messages": [{"role": "user", "content": {"text": "in a text"}}]},
    ]
    imported = import_text(store.trees, json.dumps(data))
    assert [said(store, each) for each in imported] == [
        [("user", "Hi")],
        [("user", "fine")],
        [("user", "in a text")],
    ]
    assert imported.left_out == 2 + 1 + 2 + 1


def test_conversations_beyond_the_most_are_left_out(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.history.exchange._MOST_CONVERSATIONS", 2)
    chats = [{"messages": [{"role": "user", "content": f"{number}"}]} for number in range(3)]
    imported = import_text(store.trees, json.dumps(chats))
    assert len(imported) == 2
    assert imported.left_out == 1


def test_odd_fields_of_our_own_format_do_no_harm(store: HistoryStore) -> None:
    messages: list[object] = [
        {"id": 4, "parent": {"odd": 1}, "role": "assistant", "text": "kept", "state": ["odd"]},
        {"id": 5, "parent": 9, "role": "wizard", "text": "left out"},
        {
            "id": 6,
            "parent": 5,
            "role": "assistant",
            "text": "moves up",
            "model": 3,
            "token_ids": [-1],
            "marks": "?",
            "stats": {"committed": "many"},
            "created_at": "x",
            "sampling": {"temperature": 10**400, "top_p": 9},
        },
        "odd",
    ]
    own = {"format": "duotail-conversations", "version": 1}
    told = {"title": ["odd"], "setup": 3, "leaf": {"odd": 1}, "messages": messages}
    messages.append({"id": 7, "parent": 6, "role": "user", "text": "x" * (LONGEST_TEXT + 1)})
    imported = import_text(store.trees, json.dumps({**own, "conversations": [told, 7]}))
    assert imported.left_out == 4
    (conversation,) = imported
    (second,) = store.branches.messages(conversation.id)
    assert (second.text, second.version, second.versions) == ("moves up", 2, 2)
    assert (second.token_ids, second.marks, second.stats) == (None, None, None)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "messages",
                        "mapping",
                        "chat",
                        "history",
                        "role",
                        "content",
                        "parts",
                        "parent",
                    ),
                    *("message", "author", "title", "currentId", "conversations", "format", "id"),
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(_JSON, st.booleans())
@example({"chat": {"messages": True}}, False)
@example([{"messages": [{"role": "user", "content": [{"type": {"odd": 1}, "text": "x"}]}]}], False)
@example([{"messages": [{"role": ["odd"], "reasoning_content": "x"}]}], False)
def test_whatever_a_file_holds_there_is_a_sentence(tmp_path: Path, data: object, own: bool) -> None:
    if own:
        data = {"format": "duotail-conversations", "version": 1, "conversations": [data]}
    with HistoryStore.open(tmp_path / "history.sqlite") as store, contextlib.suppress(UserFixable):
        for conversation in import_text(store.trees, json.dumps(data)):
            store.branches.messages(conversation.id)


def test_what_is_nested_too_deeply_to_be_looked_at_is_left_out(store: HistoryStore) -> None:
    """At some depth it can still be read as JSON, and no more be gone through."""
    refused = 0
    for depth in range(900, 1000):
        inner = '{"parts":' * depth + '"x"' + "}" * depth
        asked = f'{{"type": "tool_use", "name": "t", "input": {inner}}}'
        deep = f'{{"messages": [{{"role": "assistant", "content": [{asked}]}}]}}'
        text = f'[{deep}, {{"messages": [{{"role": "user", "content": "Hi"}}]}}]'
        try:
            assert len(import_text(store.trees, text)) == 1
        except UserFixable:
            refused += 1
    assert refused < 100


def test_an_import_is_stored_whole_or_not_at_all(store: HistoryStore) -> None:
    turns = [{"role": "user", "content": "x" * 1_000}] * 3
    text = json.dumps([{"messages": turns}] * 200)
    pages = store._file.connection.execute("PRAGMA page_count").fetchone()[0]
    store._file.connection.execute(f"PRAGMA max_page_count = {pages + 20}")
    with pytest.raises(UserFixable, match="full"):
        import_text(store.trees, text)
    assert store.conversations.all() == store.search("xxx") == []
    store._file.connection.execute("PRAGMA max_page_count = 1000000")
    assert len(import_text(store.trees, text)) == 200
    assert len(store.search("xxx", limit=1_000)) == 600
    assert store._file.connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert isinstance(store._file.connection, sqlite3.Connection)


def test_a_worker_takes_in_and_hands_out_beside_the_window(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    text = json.dumps([{"messages": [{"role": "user", "content": "imported"}]}] * 20)
    steps: list[int] = []

    def work() -> None:
        with beside(path) as store:
            imported = import_text(store, text, lambda done, _of: steps.append(done))
            assert len(export_json(store, [each.id for each in imported])) > 1_000

    with HistoryStore.open(path) as store:
        worker = threading.Thread(target=work)
        worker.start()
        chat = store.conversations.create("meanwhile")
        for number in range(50):
            store.answers.add_user_message(chat.id, f"message {number}")
        worker.join()
        assert steps == list(range(20))
        assert len(store.conversations.all()) == 21
        assert len(store.search("imported")) == 20
        assert len(store.branches.messages(chat.id)) == 50


def test_a_cancelled_import_leaves_nothing_behind(tmp_path: Path) -> None:
    def stop(done: int, _of: int) -> None:
        if done == 2:
            raise InterruptedError

    text = json.dumps([{"messages": [{"role": "user", "content": "imported"}]}] * 20)
    path = tmp_path / "history.sqlite"
    with HistoryStore.open(path) as store:
        with pytest.raises(InterruptedError):
            import_text(store.trees, text, stop)
        assert store.conversations.all() == store.search("imported") == []
    with HistoryStore.open(path) as store:
        assert store._file.connection.execute("SELECT * FROM message").fetchall() == []
