"""Which kind of text a line is, told as it grows, and how well each kind is guessed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_tokens import ended, model_of, told, units

from app.performance.kinds_view import KindsView
from app.performance.model import PerformanceModel
from app.performance.sight import Sight
from app.showcase.script import PLAN
from engine.events import PlanReady
from engine.model.text.kinds_of_text import KindsOfText, TextKind

ANSWER = """Some prose first,
and more of it.

- an item
  that goes on
1. another one

| a | b |
|---|---|

```python
# - no list
x = 1
```
Prose again with `code` and $x$ in it.
$$
a^2 + b^2 = c^2
$$
$e = mc^2$
\\[ a \\]
The end."""

EXPECTED = [
    *[TextKind.PROSE] * 3,
    *[TextKind.LIST] * 7,
    *[TextKind.CODE] * 4,
    TextKind.PROSE,
    *[TextKind.MATHS] * 5,
    TextKind.PROSE,
]


def kinds(text: str, pieces: list[str] | None = None) -> list[TextKind]:
    """The kind of every line."""
    found = KindsOfText()
    for piece in pieces or [text]:
        found.feed(piece)
    at, told = 0, []
    for line in text.split("\n"):
        told.append(found.at(at))
        at += units(line) + 1
    return told


def test_lines_are_told_by_how_they_look() -> None:
    assert kinds(ANSWER) == EXPECTED


@given(st.lists(st.integers(1, 9), min_size=1, max_size=200))
def test_it_does_not_matter_how_the_text_comes(sizes: list[int]) -> None:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(ANSWER[at : at + size])
        at += size
    pieces.append(ANSWER[at:])
    assert kinds(ANSWER, pieces) == EXPECTED


@given(st.text(alphabet="ab`~$\\[]|-1. \n<>/think", max_size=120), st.integers(0, 130))
def test_no_text_is_too_odd(text: str, offset: int) -> None:
    found = KindsOfText()
    for letter in text:
        found.feed(letter)
    assert found.at(offset) in TextKind


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nhm\n```\nx\n```\n</think>\nSo.", [TextKind.THINKING] * 6 + [TextKind.PROSE]),
        ("hm, hm\nyes\n</think>\nSo.", [TextKind.THINKING] * 3 + [TextKind.PROSE]),
        ("So.\n```\n</think>\n```", [TextKind.PROSE, *[TextKind.CODE] * 3]),
        ("I think\nso", [TextKind.PROSE] * 2),
        ("~~~\n```\nx\n~~~\ny", [*[TextKind.CODE] * 4, TextKind.PROSE]),
        ("a\n```py", [TextKind.PROSE, TextKind.CODE]),
        ("🍊🍊\n- 🍊\n\nx", [TextKind.PROSE, TextKind.LIST, TextKind.LIST, TextKind.PROSE]),
    ],
)
def test_thoughts_fences_and_wide_letters(text: str, expected: list[TextKind]) -> None:
    assert kinds(text) == expected


def test_what_was_there_before_is_not_counted() -> None:
    found = KindsOfText()
    found.begin_at(100)
    found.feed("- item\nprose\nand")
    assert [found.at(at) for at in (100, 107, 113)] == [
        TextKind.LIST,
        TextKind.PROSE,
        TextKind.PROSE,
    ]


# -- counted -------------------------------------------------------------------------------

ROUNDS = [
    ["Here", " you", " go", ":\n"],
    ["```\n"],
    ["x", " =", " 1", "\n"],
    ["y", " =", " 2", "\n"],
    ["```\n"],
    ["Done", "."],
]
REJECTED = ["", "no", "", "", "", ", well"]


def test_rounds_count_for_the_kind_they_begin_in() -> None:
    counts = model_of(told(ROUNDS, rejected=REJECTED)).written.kinds.counts
    assert set(counts) == {TextKind.PROSE, TextKind.CODE}
    code, prose = counts[TextKind.CODE], counts[TextKind.PROSE]
    assert (code.rounds, code.committed, code.drafted, code.accepted) == (3, 9, 7, 6)
    assert code.acceptance_length == 3.0
    assert code.accepted_share == 6 / 7
    assert (prose.rounds, prose.committed) == (1, 2)  # the first round is the prompt's
    assert prose.tokens == 6
    assert sum(count.tokens for count in counts.values()) == sum(map(len, ROUNDS))


def test_a_thought_that_was_opened_before_takes_all_along() -> None:
    rounds = [["Hm"], ["- maybe", "\n"], ["so\n", "</think>\n"], ["Yes", "."]]
    counts = model_of(told(rounds)).written.kinds.counts
    assert counts[TextKind.THINKING].tokens == 5
    assert counts[TextKind.PROSE].tokens == 2
    assert set(counts) == {TextKind.THINKING, TextKind.PROSE}


def test_answers_add_up_for_each_model(plan_of: object) -> None:
    model = model_of(told(ROUNDS, rejected=REJECTED, request_id="a"))
    model.handle(ended(20, "a"))
    for event in told(ROUNDS, rejected=REJECTED, request_id="b"):
        model.handle(event)
    model.handle(ended(20, "b"))
    assert model.kinds.counts[TextKind.CODE].committed == 18
    assert isinstance(plan_of, PlanReady)
    model.handle(plan_of)
    assert model.kinds.counts == {}


@pytest.fixture
def plan_of() -> PlanReady:
    return PlanReady(300.0, Path("other"), "Other model", PLAN)


# -- shown ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("qapp")
def test_bars_words_and_table_say_the_same() -> None:
    model = model_of(told(ROUNDS, rejected=REJECTED))
    sight = Sight(PerformanceModel())
    view = KindsView(sight)
    assert "No drafted" in view.describe()
    assert view.table().rows == ()
    assert not view.grab().isNull()
    sight = Sight(model)
    view = KindsView(sight)
    sight.follow()
    view.resize(500, 100)
    view.refresh()
    assert view.describe().count("accepted") == 2
    assert "Code: 86" in view.describe()
    assert "length 3.00" in view.describe()
    table = view.table()
    assert [row[0] for row in table.rows] == ["Prose", "Code"]
    assert table.rows[1][1] == "10"
    assert table.rows[1][2].startswith("86")
    assert table.rows[1][3] == "3.00"
    assert table.rows[1][4] == "–"
    before = view.height()
    assert not view.grab().isNull()
    model.handle(ended(20))
    for event in told([*ROUNDS, ["- a", " b\n"], ["- c", " d\n"]], request_id="s"):
        model.handle(event)
    sight.follow()
    view.refresh()
    assert view.height() > before
    assert view.table().rows[1][4] != "–"
    assert not view.grab().isNull()
    assert view._legend_words(several=True) != view._legend_words(several=False)
