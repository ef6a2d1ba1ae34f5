from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from app.chat.text.source_map import Offsets, SourceMap
from app.chat.text.text_view import TextView
from app.theme.theme import Theme, ThemeChoice

_INLINE = [
    *("word", " ", "*em*", "**bold**", "`code`", "`` a`b ``", "[link](http://x.y)", "~~gone~~"),
    *("\\*", "&amp;", "&copy;", "<http://a.b/ü>", "![alt](x.png)", "\U0001f600", "é", "日本", "\r"),
    *(
        "***x***",
        "_a_b_",
        "**open",
        "*",
        "$x^2$",
        "\\(y\\)",
        "a  \nb",
        "a\nb",
        "a\\\nb",
        "|",
        "שלום",
    ),
]
_TEXT = st.lists(st.sampled_from(_INLINE), min_size=1, max_size=8).map("".join)
_LINE = st.one_of(
    _TEXT,
    _TEXT.map("# {} #".format),
    _TEXT.map("- {}".format),
    _TEXT.map("  1. {}".format),
    _TEXT.map("> {}".format),
    _TEXT.map("> - {}".format),
    _TEXT.map("    {}".format),
    _TEXT.map("- [ ] {}".format),
    st.sampled_from(
        [
            "```py\nx = 'é'\n  y\n```",
            "- a\n\n  ```\n  in\n\n    b\n  ```",
            "~~~\nopen",
            "---",
            "",
            "",
        ]
    ),
    st.sampled_from(
        [
            "| a | b |\n|---|---|\n| *c* | `d\\|e` |\n|  | f |",
            "> | q |\n> |---|\n> | r\\|s |",
            "<think>\nhidden *a*\n</think>",
            "Title\n=====",
            "$$\n\\frac{a}{b}\n$$",
        ]
    ),
)
_SOURCES = st.lists(_LINE, min_size=1, max_size=7).map("\n".join)


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> TextView:
    theme.apply(ThemeChoice.LIGHT)
    result = TextView("Answer")
    qtbot.addWidget(result)
    result.resize(600, 100)
    return result


def _mapped(view: TextView) -> list[tuple[int, str, int]]:
    """(document position, letter, source) of every letter that is shown."""
    found = []
    block = view.document().begin()
    while block.isValid():
        for offset, letter in enumerate(block.text()):
            if letter.isalpha() and len(block.text()) == block.length() - 1:
                at = block.position() + offset
                found.append((at, letter, view.writer.map.source_at(at)))
        block = block.next()
    return found


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_SOURCES)
def test_every_letter_maps_to_the_same_letter_of_the_source(view: TextView, source: str) -> None:
    view.show_markdown(source)
    units = source.encode("utf-16-le").decode("utf-16-le").encode("utf-16-le")
    last = -1
    for at, letter, place in _mapped(view):
        if place < 0:
            assert letter not in "abcdewordlinkt" or "\t" in source, (at, letter)
            continue
        assert place >= last, "out of order"
        last = place
        there = units[2 * place : 2 * place + 2].decode("utf-16-le", "replace")
        changed = there in {"&", "$", "\\", "<"}  # an entity, a formula, a decoded address
        assert there == letter or changed, (at, letter, there)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(_SOURCES, st.lists(st.integers(0, 400), max_size=6))
def test_streamed_text_is_mapped_like_text_shown_at_once(
    view: TextView, source: str, cuts: list[int]
) -> None:
    view.show_markdown(source)
    whole = _mapped(view)
    view.reopen("")
    edges = [0, *sorted(cut % (len(source) + 1) for cut in cuts), len(source)]
    final: list[tuple[int, str, int]] = []
    for start, end in pairwise(edges):
        view.append(source[start:end])
        border = view.writer.committed_end
        mapped = _mapped(view)
        if view.thoughts == 0:
            assert [each for each in mapped if each[0] < border][: len(final)] == final
            final = [each for each in mapped if each[0] < border]
    view.finish()
    assert _mapped(view) == whole


def test_long_chains_are_mapped(view: TextView) -> None:
    code = "".join(f"line{number} = {number}\n" for number in range(100))
    rows = "".join(f"| row{number} | x |\n" for number in range(90))
    prose = " ".join(f"Sentence number {number} is here." for number in range(300))
    source = f"```py\n{code}```\n\n| a | b |\n|---|---|\n{rows}\n{prose}\n"
    view.show_markdown(source)
    view.complete()
    letters = _mapped(view)
    assert len(letters) > 6_000
    for _, letter, place in letters:
        assert source[place] == letter
    for word in ("line77", "row66", "number 222"):
        start = source.index(word)
        ((first, last),) = view.writer.map.shown(start, start + len(word))
        assert last - first == len(word)


def test_offsets_count_what_the_clean_text_lacks() -> None:
    offsets = Offsets(10)
    offsets.feed("a\r\nb\U0001f600c")
    assert [offsets.utf16(at) for at in range(6)] == [10, 12, 13, 14, 16, 17]
    offsets.skip(7)
    offsets.feed("d")
    assert offsets.utf16(5) == 24


def test_stretches_and_cuts() -> None:
    spots = SourceMap()
    spots.add(0, 5, 0, 5)
    spots.add(5, 3, 7, 3)
    spots.add(9, 2, 20, 6)
    assert list(spots.shown(2, 8)) == [(2, 6)]
    assert list(spots.shown(0, 26)) == [(0, 8), (9, 11)]
    assert [spots.source_at(at) for at in (4, 5, 8, 10, 11)] == [4, 7, -1, 20, -1]
    assert spots.document_at(5) == 5
    assert spots.document_at(99) == 11
    spots.cut(6)
    assert list(spots.shown(0, 26)) == [(0, 6)]


def test_what_comes_out_of_order_or_shows_nothing_is_left_out() -> None:
    found = SourceMap()
    assert found.document_at(0) == -1
    found.add(0, 4, 10, 4)
    found.add(4, 0, 14, 3)
    found.add(4, 3, 5, 3)
    assert len(found) == 1
    assert found.source_at(5) == -1
    assert found.document_at(12) == 2
