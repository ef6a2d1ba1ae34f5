"""Conversations as Markdown: written for people, and read again."""

from __future__ import annotations

import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.history import ChatSetup, Conversation, HistoryStore, TokenMarks
from app.history.exchange import read_trees
from app.history.markdown_file import markdown
from app.history.message import StoredMessage
from app.session.attachments import Attachment, as_block
from engine.errors import UserFixable
from engine.events import AnswerStats, Origin, TokenSpan
from engine.request import Role, SamplingParams

MARKS = TokenMarks.of([TokenSpan(5, 0, 2, Origin.DRAFTED), TokenSpan(6, 2, 3, Origin.TARGET)])
STATS = AnswerStats(12, 3, 40, 14, 1, 50, 26, (13, 10), (11, 9), 2.9, 0.2, None, 3.0)


def test_markdown_is_what_a_person_would_read(store: HistoryStore) -> None:
    chat = store.conversations.create("Soup")
    store.conversations.set_setup(chat.id, ChatSetup("Be brief."))
    store.answers.add_user_message(chat.id, "How?")
    begun = store.answers.begin(chat.id, model="Qwen", sampling=SamplingParams())
    store.pieces.append(begun.id, "<think>leeks?</think>\n\nBoil `leeks`.", [1], None)
    lines = markdown(store.conversations.all()[0], store.branches.messages(chat.id)).splitlines()
    assert lines[:6] == [
        "# Soup",
        "",
        "<!-- duotail system -->",
        "**System prompt**",
        "",
        "Be brief.",
    ]
    assert lines[8].startswith("## You, 20")
    assert lines[10] == "How?"
    assert lines[13].startswith("## Qwen, 20")
    assert lines[15:] == ["Boil `leeks`."]


_LINES = st.sampled_from(
    [
        *("# Soup", "## You, 2026-01-01 10:00", "```python", "~~~", "**System prompt**", ""),
        *("<!-- duotail user -->", "<!-- duotail-2 assistant -->", "-->", "  x ", "<think>"),
        as_block(Attachment("notes.md", "## Qwen, 2026-01-01 10:00\n```\n", 1)),
    ]
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
_MARKDOWN = st.lists(_LINES | _TEXTS, max_size=6).map("\n".join)
_TURNS = st.tuples(st.sampled_from([Role.USER, Role.ASSISTANT]), _MARKDOWN)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.lists(
        st.tuples(st.sampled_from([Role.USER, Role.ASSISTANT]), _MARKDOWN), min_size=1, max_size=5
    ),
    _MARKDOWN,
)
def test_markdown_comes_back_with_every_role_and_letter(
    turns: list[tuple[Role, str]], prompt: str
) -> None:
    turns = [(role, text) for role, text in turns if role is Role.USER or "<think>" not in text]
    messages = [
        StoredMessage(n, role, text, model="Qwen, 7B" * (role is Role.ASSISTANT), created_at=1.7e9)
        for n, (role, text) in enumerate(turns)
    ]
    chat = Conversation(0, "Soup", 1.7e9, setup=ChatSetup(prompt))
    if messages:
        ((tree,), left_out, marks) = read_trees(markdown(chat, messages))
        assert left_out == marks == 0
        assert [(m.role, m.text, m.model) for m in tree.messages] == [
            (m.role, m.text, m.model) for m in messages
        ]
        told = tree.conversation
        assert (told.title, told.setup.system_prompt) == ("Soup", prompt)
        assert abs(told.updated_at - 1.7e9) < 60


def test_markdown_of_an_earlier_version_is_read_by_its_headings() -> None:
    old = (
        "# Soup\n\n**System prompt**\n\nBe brief.\n\n## Sie, 2026-01-01 10:00\n\nHow?\n\n"
        "```\n## Qwen, 2026-01-01 10:00\n```\n\n## Qwen, 2026-01-01 10:01\n\nBoil.\n"
    )
    for text in (old, old.replace("\n", "\r\n")):
        ((tree,), *_) = read_trees(text)
        assert [(str(m.role), m.text) for m in tree.messages] == [
            ("user", "How?\n\n```\n## Qwen, 2026-01-01 10:00\n```"),
            ("assistant", "Boil."),
        ]
        assert tree.conversation.setup.system_prompt == "Be brief."
    ((tree,), *_) = read_trees("# Soup\n\n## You, 2026-13-45 10:00\n\nHow?\n")
    assert time.time() - tree.messages[0].created_at < 60
    with pytest.raises(UserFixable, match="No conversation was found"):
        read_trees("# Soup\n\n**System prompt**\n\nBe brief.\n")
