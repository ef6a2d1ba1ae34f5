from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication, QWidget
from shown_text import MIXED, everything, looks, text_view

from app.chat.text.highlight import load_lexer
from app.chat.text.text_view import TextView
from app.theme.icons import IconButton


@pytest.mark.release(keep=3, reason="every degenerate text")
@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "| a | b | c |\n|---|---|---|\n" + "| 1 | 2 | 3 |\n" * 2_000,
        "> " * 1_000 + "deep",
        "\n".join("  " * depth + "- item" for depth in range(1_000)),
        "[" * 15_000,
        "```python\n" + "x = f(1)  # c\n" * 12_000 + "```",
        "*a **b " * 2_000,
    ],
    ids=["line", "table", "quotes", "list", "brackets", "code", "stars"],
)
def test_degenerate_text_is_shown_quickly(view: TextView, text: str) -> None:
    started = time.thread_time()
    view.show_markdown(text)
    view.complete()
    QApplication.processEvents()
    assert time.thread_time() - started < 8
    assert view.raw_text == text
    assert view.document().characterCount() > 100


_LINES = [
    *("text", "# H", "- a", "  - b", "1. x", "- ```", "> q", "```", "```c", "int x;", "---", ""),
    *("/ a / b /", "/---/---/", "/ 1 / 2 /", "/---/", "$$", "$$x$$", "x$$", "  $$", "===", "- > q"),
]


@pytest.fixture(autouse=True)
def _lexers() -> None:
    for language in ("python", "c"):
        load_lexer(language, wait=True)


def test_streamed_looks_like_shown_at_once(view: TextView, host: QWidget) -> None:
    other = text_view(host)
    other.show_markdown(MIXED)
    for start in range(0, len(MIXED), 3):
        view.append(MIXED[start : start + 3])
    view.finish()
    assert looks(view) == looks(other)
    assert view.writer.regions == other.writer.regions


_GROWING = [
    "A paragraph of **bold** and `code words` and *a few* words, which goes on. And on!",
    "1. An item with words, and more of them\n2. another\n\n       code in an item goes on",
    "- a\n\n  ```python\n  some words of code\n  ```\n- | a | b |\n  |---|---|\n  | c | d e f |",
    "> A quote with words\nand a lazy line of it\n\n# A heading of some words\n\nTitle words\n---",
    "It costs $5 and a bit more, or $x + y$ and \\(a b\\) and [a link of words](http://a.b/c d)",
    "a | b of\n--- | ---\nc and d | e and f\n\n- [ ] to be done\n\n***\n\nlast _words_ of it",
]


@pytest.mark.parametrize("text", _GROWING)
def test_every_word_more_looks_as_if_all_were_written_anew(
    view: TextView, host: QWidget, text: str
) -> None:
    other = text_view(host)
    view.reopen("")
    edges = [0, *(at for at in range(1, len(text)) if text[at] == " " or at % 7 == 0), len(text)]
    for start, end in pairwise(edges):
        view.append(text[start:end])
        other.reopen(text[:end])
        assert looks(view) == looks(other), text[:end]
        assert view.writer.regions == other.writer.regions
        places = range(view.document().characterCount())
        here, there = view.writer.map, other.writer.map
        assert [here.source_at(at) for at in places] == [there.source_at(at) for at in places]


def test_words_are_added_to_an_open_paragraph_without_parsing_it_again(
    view: TextView, monkeypatch: pytest.MonkeyPatch
) -> None:
    view.append("It begins with **bold** words")
    for name in ("app.chat.text.block_stream._parse", "app.chat.text.prose.ProseWriter.write"):
        monkeypatch.setattr(name, None)
    view.append(" and goes on")
    view.append(", and on.")
    assert looks(view)[0][0] == "It begins with bold words and goes on, and on."


def test_finished_blocks_are_never_touched_again(view: TextView) -> None:
    touched: list[tuple[int, int]] = []
    document = view.document()
    document.contentsChange.connect(
        lambda position, _removed, _added: touched.append((position, view.writer.committed_end))
    )
    for start in range(0, len(MIXED), 5):
        view.append(MIXED[start : start + 5])
    view.finish()
    assert len(touched) > 20
    # `committed_end` is still the one from before the change when Qt reports it; Qt may count the
    # invisible mark that closes a table just above.
    assert all(position >= border - 1 for position, border in touched)


def test_an_open_code_block_only_grows(view: TextView) -> None:
    view.append("```python\nx = 1\n")
    removed: list[int] = []
    view.document().contentsChange.connect(lambda _at, gone, _new: removed.append(gone))
    for number in range(50):
        view.append(f"y{number} = 2\n")
    assert len(removed) >= 50
    assert max(removed) <= 1
    view.append("```\n")
    (region,) = view.writer.regions
    assert region.code.count("\n") == 50


def test_colours_of_a_line_that_is_laid_out_in_parts_go_on(view: TextView) -> None:
    line = "x = " + "'y' + " * 2_000 + "'z'"
    view.show_markdown(f"```python\n{line}\n```")
    view.complete()
    parts = [(text, spans) for text, *_, spans in looks(view)]
    assert len(parts) > 2
    for text, spans in parts:
        assert spans
        assert all(start >= 0 and start + length <= len(str(text)) for start, length in spans)


def test_code_is_coloured_once_it_is_closed(view: TextView) -> None:
    view.append("```python\nreturn 1\n")
    assert not view.document().begin().layout().formats()
    view.append("```\n")
    assert view.document().begin().layout().formats()


@pytest.mark.parametrize("lines", [31, 32, 33, 64])
def test_code_as_long_as_its_links_is_coloured_to_its_end(
    view: TextView, host: QWidget, lines: int
) -> None:
    text = "```python\n" + "return 1\n" * lines + "```\n\nThat is all."
    view.show_markdown(text)
    view.complete()
    other = text_view(host)
    for start in range(0, len(text), 7):
        other.append(text[start : start + 7])
    other.finish()
    other.complete()
    assert [look[0] for look in looks(view)] == ["return 1"] * lines + ["That is all."]
    assert all(look[-1] for look in looks(view)[:-1])
    assert looks(other) == looks(view)


def test_an_empty_item_outlives_the_paragraph_below_it(view: TextView) -> None:
    view.append("*\nw")
    view.append("ord")
    view.finish()
    streamed = looks(view)
    view.show_markdown("*\nword")
    assert looks(view) == streamed


@pytest.mark.parametrize(
    ("text", "cuts"),
    [
        ("- ```\n[](y)", [1, 4, 7]),
        ("# \n| 1 | 2 |", [3, 4, 5]),
        ("- ![](x)\n\n- [](x)\n- [](x)\n- [](x)", [13, 24, 27]),
    ],
)
def test_a_block_without_a_letter_keeps_its_looks_while_more_comes(
    view: TextView, text: str, cuts: list[int]
) -> None:
    view.show_markdown(text)
    whole = looks(view)
    view.reopen("")
    for start, end in pairwise([0, *cuts, len(text)]):
        view.append(text[start:end])
    view.finish()
    assert looks(view) == whole


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.lists(
        st.sampled_from(_LINES).map(lambda line: line.replace("/", "|")),
        max_size=10,
    ).map("\n".join),
    st.lists(st.integers(0, 100), max_size=6),
)
def test_any_stream_ends_as_the_whole_would_look(
    view: TextView, text: str, cuts: list[int]
) -> None:
    view.show_markdown(text)
    whole = looks(view)
    view.reopen("")
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    for start, end in pairwise(edges):
        view.append(text[start:end])
    view.finish()
    assert looks(view) == whole


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n|---|--:|\n" + "".join(f"| *{n}* | x{n} |\n" for n in range(70)) + "\nend",
        "```python\n" + "".join(f"x{n} = {n}\n\n" for n in range(60)) + "```\n\nend",
        "Sentence one is here. " * 200 + "\n\nend",
        "x" * 9_000 + "\n\nend",
    ],
    ids=["table", "code", "prose", "line"],
)
def test_a_streamed_chain_looks_like_one_shown_at_once(
    view: TextView, host: QWidget, text: str
) -> None:
    other = text_view(host)
    other.show_markdown(text)
    other.complete()
    for start in range(0, len(text), 29):
        view.append(text[start : start + 29])
    view.finish()
    view.complete()
    assert looks(view) == looks(other)
    assert view.writer.regions == other.writer.regions
    assert everything(view) == everything(other)


def test_an_answer_looks_the_same_written_piece_by_piece(host: QWidget) -> None:
    text = (MIXED + "\n> a quote\n> with more\n\n") * 4
    whole, pieces = text_view(host), text_view(host)
    whole.show_markdown(text)
    whole.complete()
    for start in range(0, len(text), 7):
        pieces.append(text[start : start + 7])
    pieces.finish()
    pieces.complete()
    places = [[each.pos() for each in copy_buttons(view)] for view in (whole, pieces)]
    assert len(places[0]) == 4
    assert places[1] == places[0]
    for button in copy_buttons(whole) + copy_buttons(pieces):
        button.hide()  # one of them has the focus, or the mouse over it
    assert pieces.grab().toImage() == whole.grab().toImage()


def copy_buttons(view: TextView) -> list[IconButton]:
    return [each for each in view.findChildren(IconButton) if not each.isHidden()]
