"""What people typed, in blocks."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.chat.text.markdown import BlockKind, MarkdownBlock
from app.chat.text.typed import TypedText


def blocks(text: str, cuts: tuple[int, ...] = ()) -> list[MarkdownBlock]:
    typed = TypedText()
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    found: list[MarkdownBlock] = []
    for start, end in pairwise(places):
        found += typed.feed(text[start:end])
    return found + list(typed.finish())


def shown(found: list[MarkdownBlock]) -> str:
    """The text as it looks: what goes on in a line is joined to it."""
    parts: list[str] = []
    for block in found:
        parts.append(("" if block.in_line or not parts else "\n") + block.source)
    return "".join(parts)


def test_plain_lines_stay_together() -> None:
    (block,) = blocks("one\n*two*\n\nthree")
    assert block.kind is BlockKind.PLAIN
    assert block.source == "one\n*two*\n\nthree"


def test_fenced_code_is_code() -> None:
    before, code, after = blocks("Look:\n```main.py\ndef f():\n    pass\n```\nWhat is it?")
    assert (before.source, after.source) == ("Look:", "What is it?")
    assert code.kind is BlockKind.CODE
    assert code.code == "def f():\n    pass"
    assert code.language == "main.py"


def test_a_fence_that_never_closes_is_plain_text() -> None:
    found = blocks("```\nnot closed\n")
    assert {block.kind for block in found} == {BlockKind.PLAIN}


def test_a_very_long_line_is_cut_without_a_trace() -> None:
    text = "word " * 3_000
    found = blocks(text)
    assert len(found) > 1
    assert all(block.in_line for block in found[1:])
    assert shown(found) == text
    assert shown(blocks(text, (5_000, 9_001, 9_002))) == text


texts = st.text(st.sampled_from("ab \n`~"), max_size=120)


@given(texts, st.lists(st.integers(0, 120), max_size=4).map(tuple))
def test_pieces_leave_no_trace(text: str, cuts: tuple[int, ...]) -> None:
    whole, pieces = blocks(text), blocks(text, cuts)
    assert shown(pieces).rstrip("\n") == text.rstrip("\n")
    code = [block.source for block in whole if block.kind is BlockKind.CODE]
    assert [block.source for block in pieces if block.kind is BlockKind.CODE] == code


@given(texts)
def test_blocks_say_where_they_stand(text: str) -> None:
    for block in blocks(text):
        assert text.startswith(block.source, block.start)
