from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat.block_stream import BlockStream, split
from app.chat.markdown import Block, BlockKind

_LINES = st.sampled_from(
    (
        "||text|some longer line of words|# Heading|#tag|---|***bold** x|===|- item|- |-|* star"
        "|1. one|2. two|12|  continued|    code|\tcode|> quote|>|```|```python|``|~~~|print(1)"
        "|/ a / b /|/---/---/|/ 1 / 2 /|[a]: http://x|<b>html</b>|   - nested|  |+ plus"
        "|----------------|a/b"
    )
    .replace("/", "\0")
    .split("|")
).map(lambda line: line.replace("\0", "|").replace("http:||", "http://"))
_TEXTS = st.lists(_LINES, max_size=12).map("\n".join)


def _streamed(text: str, cuts: list[int]) -> list[Block]:
    stream = BlockStream()
    seen: list[Block] = []
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        stream.feed(text[start:end])
        assert stream.committed[: len(seen)] == seen, "a finished block changed"
        seen = list(stream.committed)
    stream.finish()
    assert stream.committed[: len(seen)] == seen
    return stream.committed


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_TEXTS, st.lists(st.integers(0, 400), max_size=8))
def test_streaming_in_any_pieces_gives_the_blocks_of_the_whole(text: str, cuts: list[int]) -> None:
    assert _streamed(text, cuts) == _streamed(text, [])


@settings(max_examples=80, deadline=None)
@given(_TEXTS)
def test_streaming_by_character_gives_the_blocks_of_the_whole(text: str) -> None:
    assert _streamed(text, list(range(len(text)))) == split(text)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    blocks = _streamed(text, list(range(0, len(text), 3)))
    assert bool(blocks) or not text.strip()


def test_kinds_and_sources() -> None:
    blocks = split(
        "# Title\n\nPara one\nsame.\n\n- a\n- b\n  - c\n\n```python title=x\nprint(1)\n\nx\n```\n\n"
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n> quote\n\nend"
    )
    assert [(block.kind.value, block.source.split("\n")[0]) for block in blocks] == [
        ("prose", "# Title"),
        ("prose", "Para one"),
        ("prose", "- a"),
        ("prose", "- b"),
        ("code", "```python title=x"),
        ("table", "| a | b |"),
        ("prose", "> quote"),
        ("prose", "end"),
    ]
    code = blocks[4]
    assert (code.language, code.code, code.closed) == ("python", "print(1)\n\nx", True)


def test_an_open_code_block_is_known_as_such() -> None:
    stream = BlockStream()
    stream.feed("Look:\n\n```c\nint x;")
    assert [block.source for block in stream.committed] == ["Look:"]
    (tail,) = stream.tail
    assert (tail.kind, tail.closed, tail.code) == (BlockKind.CODE, False, "int x;")
    stream.feed("\nint y;\n``")
    assert stream.tail[0].code == "int x;\nint y;\n``"
    stream.feed("`\n")
    assert stream.tail == ()
    assert stream.committed[-1].code == "int x;\nint y;"


def test_a_finished_code_block_is_not_held_up_by_the_line_after_it() -> None:
    stream = BlockStream()
    stream.feed("```\nx\n```\nHalf a li")
    assert [block.kind for block in stream.committed] == [BlockKind.CODE]
    assert [block.source for block in stream.tail] == ["Half a li"]


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "word " * 200_000,
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 5_000,
        "> " * 1_000 + "deep",
        "\n".join("  " * depth + "- item" for depth in range(1_000)),
        "[" * 50_000,
        "*" * 50_000,
        "`" * 50_000,
        "\n" * 100_000,
    ],
    ids=["line", "words", "table", "quotes", "list", "brackets", "stars", "ticks", "blank"],
)
def test_degenerate_text_becomes_plain_and_quick(text: str) -> None:
    started = time.process_time()
    blocks = split(text)
    assert time.process_time() - started < 4
    assert all(len(block.source) <= 16_500 for block in blocks)
    kept = sum(len(block.source.replace("\n", "")) for block in blocks)
    # Blocks are cut out with the blank space around them dropped, never with words lost.
    assert kept >= len(text.replace("\n", "")) - 4 * len(blocks) or not text.strip()


def test_plain_text_keeps_every_character_of_a_giant_line() -> None:
    text = ("ab cd " * 100_000).rstrip()
    assert "".join(block.source for block in split(text)) == text


def test_markdown_goes_on_after_a_giant_line() -> None:
    blocks = split("x" * 50_000 + "\n\n# After\n")
    assert blocks[-1] == Block(BlockKind.PROSE, "# After")


def test_characters_that_mean_something_to_qt_are_replaced() -> None:
    (block,) = split("a\0b\ufdd0c\ufffcd\r")
    assert block.source == "a\ufffdb\ufffdc\ufffdd"
