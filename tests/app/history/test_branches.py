"""Versions, edits, deletions and their undoing, against a model that is simple to believe."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from app.history import AnswerState, Conversation, HistoryStore, UndoToken
from engine.request import SamplingParams


def answer(store: HistoryStore, conversation: Conversation, text: str) -> int:
    begun = store.answers.begin(conversation.id, model="m", sampling=SamplingParams())
    store.answers.finish(
        begun.id,
        text=text,
        token_ids=None,
        marks=None,
        state=AnswerState.COMPLETE,
        stats=None,
        signature="",
    )
    return begun.id


def shown(store: HistoryStore, conversation: Conversation) -> list[tuple[str, int, int]]:
    return [(m.text, m.version, m.versions) for m in store.branches.messages(conversation.id)]


def test_an_edited_question_keeps_the_old_branch_one_step_away(store: HistoryStore) -> None:
    chat = store.conversations.create("chat")
    first = store.answers.add_user_message(chat.id, "q1")
    answer(store, chat, "a1")
    store.answers.add_user_message(chat.id, "q2")
    store.branches.set_leaf(chat.id, first.parent_id)
    edited = store.answers.add_user_message(chat.id, "q1 edited")
    assert (edited.version, edited.versions) == (2, 2)
    answer(store, chat, "a2")
    assert shown(store, chat) == [("q1 edited", 2, 2), ("a2", 1, 1)]
    store.branches.show_version(edited.id, -1)
    assert shown(store, chat) == [("q1", 1, 2), ("a1", 1, 1), ("q2", 1, 1)]
    for step in (-1, 2):
        with pytest.raises(LookupError):
            store.branches.show_version(first.id, step)


def test_a_deleted_version_makes_way_for_its_neighbour(store: HistoryStore) -> None:
    chat = store.conversations.create("chat")
    question = store.answers.add_user_message(chat.id, "q")
    answers = []
    for text in ("a1", "a2", "a3"):
        store.branches.set_leaf(chat.id, question.id)
        answers.append(answer(store, chat, text))
    store.branches.show_version(answers[2], -1)
    middle = store.trash.delete_message(answers[1])
    assert shown(store, chat) == [("q", 1, 1), ("a1", 1, 2)]
    store.trash.delete_message(answers[0])
    assert shown(store, chat) == [("q", 1, 1), ("a3", 1, 1)]
    store.trash.delete_message(answers[2])
    assert shown(store, chat) == [("q", 1, 1)]
    store.trash.undelete(middle)
    assert shown(store, chat) == [("q", 1, 1), ("a2", 1, 1)]
    with pytest.raises(LookupError):
        store.trash.undelete(middle)


def test_what_is_deleted_is_out_of_reach_and_out_of_search(store: HistoryStore) -> None:
    chat, other = store.conversations.create("chat"), store.conversations.create("other")
    question = store.answers.add_user_message(chat.id, "needle")
    below = answer(store, chat, "also a needle")
    token = store.trash.delete_message(question.id)
    assert store.search("needle") == []
    for call in (
        lambda: store.branches.set_leaf(chat.id, below),
        lambda: store.branches.show_version(below, 0),
        lambda: store.trash.delete_message(question.id),
        lambda: store.trash.delete_message(below),
        lambda: store.branches.set_leaf(other.id, question.id),
    ):
        with pytest.raises(LookupError):
            call()
    store.trash.undelete(token)
    with pytest.raises(LookupError):
        store.branches.set_leaf(other.id, question.id)
    assert [m.id for m in store.branches.messages(chat.id)] == [question.id, below]
    assert [hit.message_id for hit in store.search("needle")] == [below, question.id]


def test_a_crash_between_going_back_and_going_on_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "cut.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("chat")
        store.answers.add_user_message(chat.id, "first")
        answer(store, chat, "second")
        store.branches.set_leaf(chat.id, None)
        assert store.branches.messages(chat.id) == []
    with HistoryStore.open(path) as store:
        assert [m.text for m in store.branches.messages(chat.id)] == ["first", "second"]


def test_deleted_messages_are_gone_when_the_trash_is_emptied(tmp_path: Path) -> None:
    path = tmp_path / "purged.sqlite"
    with HistoryStore.open(path) as store:
        chat = store.conversations.create("chat")
        question = store.answers.add_user_message(chat.id, "kept")
        token = store.trash.delete_message(answer(store, chat, "unwanted secret"))
        store.trash.empty()
    assert b"unwanted secret" not in path.read_bytes()
    with HistoryStore.open(path) as store:
        assert [m.id for m in store.branches.messages(chat.id)] == [question.id]
        with pytest.raises(LookupError):
            store.trash.undelete(token)


@dataclass
class Node:
    parent: int | None
    text: str
    deleted: bool = False


class Tree:
    """The whole truth about one conversation, as a person would draw it."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.leaf: int | None = None

    def path(self, node: int | None) -> list[int]:
        found: list[int] = []
        while node is not None:
            found.append(node)
            node = self.nodes[node].parent
        return found[::-1]

    def visible(self, node: int) -> bool:
        return not any(self.nodes[above].deleted for above in self.path(node))

    def seen(self) -> list[int]:
        return [node for node in sorted(self.nodes) if self.visible(node)]

    def family(self, parent: int | None) -> list[int]:
        return [node for node in self.seen() if self.nodes[node].parent == parent]

    def newest_below(self, node: int) -> int:
        return max(other for other in self.seen() if node in self.path(other))

    def delete(self, node: int) -> int | None:
        """The leaf that the deletion hid, if it did."""
        family, hidden = self.family(self.nodes[node].parent), node in self.path(self.leaf)
        before = self.leaf if hidden else None
        self.nodes[node].deleted = True
        if hidden:
            older = [other for other in family if other < node]
            newer = [other for other in family if other > node]
            follower = older[-1] if older else newer[0] if newer else None
            parent = self.nodes[node].parent
            self.leaf = parent if follower is None else self.newest_below(follower)
        return before

    def undelete(self, node: int, leaf: int | None) -> None:
        self.nodes[node].deleted = False
        if leaf is not None and self.visible(node):
            self.leaf = self.newest_below(leaf if self.visible(leaf) else node)


class BranchMachine(RuleBasedStateMachine):
    """Any order of what people can do gives what the drawing says, also after a restart."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "history.sqlite"
        self.store = HistoryStore.open(self.path)
        self.chat = self.store.conversations.create("chat")
        neighbour = self.store.conversations.create("neighbour")
        self.store.answers.add_user_message(neighbour.id, "not to be touched")
        self.tree = Tree()
        self.tokens: list[tuple[UndoToken, int, int | None]] = []

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    def _pick(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(self.tree.seen()))

    @rule(by_user=st.booleans())
    def say(self, by_user: bool) -> None:
        text = f"message {len(self.tree.nodes)}"
        if by_user:
            new = self.store.answers.add_user_message(self.chat.id, text).id
        else:
            new = answer(self.store, self.chat, text)
        self.tree.nodes[new] = Node(self.tree.leaf, text)
        self.tree.leaf = new

    @rule(data=st.data())
    def go_back(self, data: st.DataObject) -> None:
        leaf = data.draw(st.sampled_from([None, *self.tree.seen()]))
        self.store.branches.set_leaf(self.chat.id, leaf)
        self.tree.leaf = leaf

    @precondition(lambda self: self.tree.seen())
    @rule(data=st.data(), step=st.sampled_from([-1, 1]))
    def turn_over(self, data: st.DataObject, step: int) -> None:
        node = self._pick(data)
        family = self.tree.family(self.tree.nodes[node].parent)
        place = family.index(node) + step
        if 0 <= place < len(family):
            self.store.branches.show_version(node, step)
            self.tree.leaf = self.tree.newest_below(family[place])
        else:
            with pytest.raises(LookupError):
                self.store.branches.show_version(node, step)

    @precondition(lambda self: self.tree.seen())
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        node = self._pick(data)
        token = self.store.trash.delete_message(node)
        self.tokens.append((token, node, self.tree.delete(node)))

    @precondition(lambda self: self.tokens)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.tokens) - 1))
        token, node, leaf = self.tokens.pop(place)
        self.store.trash.undelete(token)
        self.tree.undelete(node, leaf)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.store = HistoryStore.open(self.path)
        tree = self.tree
        tree.nodes = {node: tree.nodes[node] for node in tree.seen()}
        end = tree.family(None)[-1:] if tree.leaf is None else [tree.leaf]
        tree.leaf = tree.newest_below(end[0]) if end else None
        self.tokens.clear()

    @invariant()
    def the_window_shows_the_drawing(self) -> None:
        tree = self.tree
        expected = []
        for node in tree.path(tree.leaf):
            parent = tree.nodes[node].parent
            family = tree.family(parent)
            place = family.index(node) + 1
            expected.append((node, parent, tree.nodes[node].text, place, len(family)))
        found = [
            (m.id, m.parent_id, m.text, m.version, m.versions)
            for m in self.store.branches.messages(self.chat.id)
        ]
        assert found == expected


TestBranches = BranchMachine.TestCase
TestBranches.settings = settings(
    max_examples=25,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
