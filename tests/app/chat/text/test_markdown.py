from __future__ import annotations

import time
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.chat.text.block_stream import BlockStream, split
from app.chat.text.markdown import BlockKind, MarkdownBlock, plain, safe_cut

_LINES = st.sampled_from(
    (
        "||text|some longer line of words|# Heading|#tag|---|***bold** x|===|- item|- |-|* star"
        "|1. one|2. two|12|  continued|    code|\tcode|> quote|>|```|```python|``|~~~|print(1)"
        "|/ a / b /|/---/---/|/ 1 / 2 /|[a]: http://x|<b>html</b>|   - nested|  |+ plus"
        "|----------------|a/b|$$|$$x|x$$|$$ x $$|  $$|- $$|> $$|\\[|x \\]|\\begin{align}"
        "|\\end{align}.|/---/|-/-|=== |- ```|> ```|- - a|    - deep|lazy words| "
    )
    .replace("/", "\0")
    .split("|")
).map(lambda line: line.replace("\0", "|").replace("http:||", "http://"))
_TEXTS = st.lists(_LINES, max_size=12).map("\n".join)


def _streamed(text: str, cuts: list[int]) -> list[MarkdownBlock]:
    stream = BlockStream()
    seen: list[MarkdownBlock] = []
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


@pytest.mark.parametrize(
    "text",
    [
        *("$$\n# a\n-\n$$", "> a\n$$\n- b\n$$ c", "- $$\n  # a\n  $$", "> $$\n$$\n    a\n$$b$$."),
        *("\\[\n- a\n\\]", "a\n  $$\nb $$ c", "\\begin{align}\n```\n\\end{align}."),
        *("$$\n```\n\n$$", "=== \n  |---|\n|---|---|", "a\n|---|\n-|-"),
        *("a|b\n-|-\n$$\n- c\n$$", "- a\nb|c\n-|-\n- $$d$$", "-\n- |a\n-|-\n\na"),
    ],
)
def test_no_two_cuts_change_the_blocks(text: str) -> None:
    whole = split(text)
    for first, second in combinations_with_replacement(range(len(text)), 2):
        assert _streamed(text, [first, second]) == whole, (first, second)


@pytest.mark.parametrize(
    "text",
    [
        "words and more " * 130 + "\n===\n\nend",
        "$$\n" + ("a + b" * 9 + "\n- c\n") * 42 + "$$\n\nend",
        ("\u65e5\u672c\u8a9e\u3002" * 12 + "\n$$ ") * 40 + "\n\nend",
        "    code\n" * 30 + "\n\n\na | b\n-|-",
        "    " + "code " * 900 + "\n\nend",
    ],
    ids=["underlined", "formula", "sentences", "blank", "giant"],
)
def test_long_text_is_cut_in_the_same_places_as_it_comes(text: str) -> None:
    whole = split(text)
    for size in (7, 300):
        assert _streamed(text, list(range(0, len(text), size))) == whole


def test_an_open_formula_is_shown_as_it_is_typed() -> None:
    stream = BlockStream()
    stream.feed("Look:\n\n$$\na\n= b\n- c_1")
    assert [block.source for block in stream.committed] == ["Look:"]
    assert [(block.kind, block.source) for block in stream.tail] == [
        (BlockKind.PLAIN, "$$\na\n= b\n- c_1")
    ]
    stream.feed("\n$$\n")
    assert (stream.tail, stream.committed[-1].kind) == ((), BlockKind.PROSE)


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


def test_indented_fences_take_their_indent_off_the_code() -> None:
    (block,) = split("  ```\n    x\n y\n  ```\n")
    assert block.code == "  x\ny"


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
    started = time.thread_time()
    blocks = split(text)
    assert time.thread_time() - started < 4
    assert all(len(block.source) <= 16_500 for block in blocks)
    kept = sum(len(block.source.replace("\n", "")) for block in blocks)
    # Blocks are cut out with the blank space around them dropped, never with words lost.
    assert kept >= len(text.replace("\n", "")) - 4 * len(blocks) or not text.strip()


def test_plain_text_keeps_every_character_of_a_giant_line() -> None:
    text = ("ab cd " * 100_000).rstrip()
    assert "".join(block.source for block in split(text)) == text


_CODE = "".join(f"    line {number}\n" for number in range(150))
_ROWS = "".join(f"| {number} | b |\n" for number in range(150))
_PROSE = " ".join(f"This is **sentence** number {number}." for number in range(400))
_CHAINS = {
    "code": f"```py\n{_CODE}```\n\nend",
    "open": f"~~~\n{_CODE}",
    "wide": f"```\n{('x' * 300 + chr(10)) * 60}```\n\nend",
    "giant": "```\n" + "x" * 20_000 + "\ny\n```",
    "table": f"| a | b |\n|---|---|\n{_ROWS}\nend",
    "prose": f"{_PROSE}\n\nend",
    "indented": f"{_CODE}\nend",
}


@pytest.mark.parametrize("text", _CHAINS.values(), ids=_CHAINS)
def test_what_is_long_becomes_a_chain_of_short_blocks(text: str) -> None:
    blocks = split(text)
    assert len(blocks) > 4
    for block in blocks:
        assert len(block.source) <= 4_200
        assert block.source.count("\n") <= 60
        assert text[block.start : block.start + len(block.source)] == block.source
    for size in (7, 130, 3_000):
        assert _streamed(text, list(range(0, len(text), size))) == blocks


def test_the_code_of_a_chain_is_the_code() -> None:
    blocks = [block for block in split(_CHAINS["code"]) if block.kind is BlockKind.CODE]
    assert "\n".join(block.code for block in blocks) == _CODE.removesuffix("\n")
    assert {block.language for block in blocks} == {"py"}
    giant = [block for block in split(_CHAINS["giant"]) if block.kind is BlockKind.CODE]
    joined = "".join(("" if block.in_line else "\n") + block.code for block in giant)
    assert joined == "\n" + "x" * 20_000 + "\ny"


@pytest.mark.release(keep=40, reason="every pair")
@pytest.mark.parametrize("lines", [30, 31, 32, 33, 63, 64, 65, 96])
@pytest.mark.parametrize("line", ["x", "", "  ", "``", "```x"])
@pytest.mark.parametrize("rest", ["", "\n", "\n\nend", "\nend\n\n\n"])
def test_code_as_long_as_a_link_ends_with_its_fence(lines: int, line: str, rest: str) -> None:
    code = "\n".join(["first", *[f"line {number}" for number in range(lines - 2)], line])
    text = f"```py\n{code}\n```{rest}"
    blocks = split(text)
    links = [block for block in blocks if block.kind is BlockKind.CODE]
    assert "\n".join(block.code for block in links) == code
    assert [block.closed for block in links] == [*[False] * (len(links) - 1), True]
    assert [block.source for block in blocks if block not in links] == ["end"] * ("end" in rest)
    assert _streamed(text, list(range(len(text)))) == blocks


def test_chains_are_never_cut_within_a_character() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    text = "a" + (family + "\U0001f1e9\U0001f1ea" + "e\u0301") * 2_000
    for blocks in (split(text), plain(text)):
        assert len(blocks) > 3
        for block in blocks[1:]:
            assert block.source[0] not in "\u200d\u0301"
            assert (
                block.source[0] == "\U0001f468"
                or block.source[0] == "e"
                or (block.source.startswith("\U0001f1e9"))
            )


@pytest.mark.parametrize("giant", ["x" * 50_000, "> " + "y " * 25_000], ids=["line", "quote"])
def test_markdown_goes_on_after_a_giant_line(giant: str) -> None:
    text = giant + "\n\n# After\n"
    for blocks in (split(text), _streamed(text, list(range(0, len(text), 900)))):
        assert (blocks[-1].kind, blocks[-1].source) == (BlockKind.PROSE, "# After")
        assert text[blocks[-1].start :] == "# After\n"
        assert "".join(each.source for each in blocks[:-1]).rstrip() == giant.rstrip()


def test_characters_that_mean_something_to_qt_are_replaced() -> None:
    (block,) = split("a\0b\ufdd0c\ufffcd\r")
    assert block.source == "a\ufffdb\ufffdc\ufffdd"


@pytest.mark.parametrize(
    "joined",
    ["\U0001f1e9\U0001f1ea", "e\u0301", "\U0001f469\u200d\U0001f467", "\U0001f44d\U0001f3fd"],
    ids=["flag", "accent", "family", "skin"],
)
def test_what_is_one_character_is_not_cut(joined: str) -> None:
    text = f"ab{joined}cd"
    for at in range(3, 2 + len(joined)):
        assert safe_cut(text, at) == 2
    assert safe_cut(text, 2) == 2
    assert safe_cut(text, 2 + len(joined)) == 2 + len(joined)
    assert safe_cut(text, 99) == len(text)
