"""Titles from first messages."""

from __future__ import annotations

import pytest

from app.session.attachments import Attachment, with_attachments
from app.session.titles import title_of


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("Hello **there**, my friend", "Hello there, my friend"),
        ("Hello!", "Hello!"),
        ("\n\n  # **Plan** for `x`\nmore", "Plan for x"),
        ("***\nreal words", "real words"),
        ("a" * 100, "a" * 60 + "\u2026"),
        ("Hi there! How do I sort a list in Python?", "How do I sort a list in Python?"),
        ("Hallo,\n\nwie wird das Wetter morgen?", "wie wird das Wetter morgen?"),
        ("## Plan\n\n- one", "Plan"),
        ("> quoted", "quoted"),
        ("1. first things first", "first things first"),
        ("Why is snake_case and 2*3 kept?", "Why is snake_case and 2*3 kept?"),
        ("Read [the docs](https://example.org/a_b) please", "Read the docs please"),
        ("```python\nprint(1)\n```\nWhat does this print?", "What does this print?"),
        ("```python\n\nprint(1)\n```", "print(1)"),
        ("\u4f60\u597d\uff0c\u8bf7\u5e2e\u6211\u5199\u4e00\u5c01\u4fe1", None),
        ("", "New chat"),
        ("\n \t\n***\n", "New chat"),
        ("a\tb\x07c", "a b c"),
    ],
)
def test_a_title_says_what_it_is_about(text: str, title: str | None) -> None:
    assert title_of(text) == (title or "\u8bf7\u5e2e\u6211\u5199\u4e00\u5c01\u4fe1")


def test_long_ones_are_cut_at_a_word() -> None:
    title = title_of("Please " + "explain " * 30)
    assert title.endswith("explain\u2026")
    assert len(title) <= 61


def test_wide_letters_count_twice_and_nothing_visible_is_split() -> None:
    assert len(title_of("\u8bed" * 100)) == 31
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    cut = title_of("x" * 57 + family * 3)
    assert cut.removesuffix("\u2026").removeprefix("x" * 57) in ("", family)


def test_attached_files_give_their_name_only_where_nothing_else_is_said() -> None:
    files = [Attachment("notes.md", "# Secret heading\n```\ncode\n```\n", 30)]
    assert title_of(with_attachments(files, "Summarise this")) == "Summarise this"
    assert title_of(with_attachments(files, "")) == "notes.md"
