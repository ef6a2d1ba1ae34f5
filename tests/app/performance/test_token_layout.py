"""Tokens of rounds, and where they stand: the text in order, signs for what cannot be seen."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_tokens import ended, many, model_of, told

from app.engine_link.bridge import joined
from app.performance.chip_layout import HALF, ChipLayout, Direction, Measures, TokenDisplay, traced
from app.performance.tokens import AnswerTokens, Fate, Token
from engine.events import Event, RoundFinished, TextDelta, TokenSpan

MEASURES = Measures(width=lambda text: 8.0 * len(text), line=20.0, gutter=40.0, mark=10.0)


def tokens_of(*rounds: list[str], **more: object) -> AnswerTokens:
    return model_of(told(rounds, **more)).written.tokens  # type: ignore[arg-type]


def laid_out(look: TokenDisplay, tokens: AnswerTokens, room: float = 400.0) -> ChipLayout:
    layout = ChipLayout(look, room, MEASURES)
    assert layout.grow(tokens.rounds, 60.0)
    return layout


def word(text: str, fate: Fate = Fate.OWN) -> Token:
    return Token(text, fate, 0, len(text))


@pytest.mark.parametrize(
    ("text", "rtl"), [("é א", False), ("… א é", True), ("…", None), ("a", False)]
)
def test_the_first_letter_with_a_direction_decides(text: str, rtl: bool | None) -> None:
    paragraph = Direction()
    paragraph.hear(text)
    paragraph.hear("א" if rtl is False else "")
    assert paragraph.rtl is rtl


# -- tokens --------------------------------------------------------------------------------


def test_text_after_a_gap_is_not_taken_for_what_was_lost() -> None:
    *_, kept, done = told([["lost"], ["between"], ["kept"]])
    tokens = AnswerTokens()
    (lost,) = [each for each in told([["lost"]]) if isinstance(each, TextDelta)]
    assert isinstance(kept, TextDelta)
    assert isinstance(done, RoundFinished)
    tokens.hear(lost)
    tokens.hear(kept)
    assert tokens.add(done).text == "kept"


@given(
    rounds=st.lists(
        st.lists(st.text("aß😀 ", min_size=1, max_size=3), min_size=1, max_size=4),
        min_size=1,
        max_size=12,
    ),
    cuts=st.sets(st.integers(1, 23)),
)
def test_rounds_whose_text_came_in_one_piece_have_their_own(
    rounds: list[list[str]], cuts: set[int]
) -> None:
    """A window's frame brings what several rounds wrote as one text, and then the rounds."""
    events = list(told(rounds))
    frames: list[list[Event]] = [[]]
    for place, event in enumerate(events):
        if place % 2 and place // 2 in cuts:  # between rounds
            frames.append([])
        frames[-1].append(event)
    framed = iter([event for frame in frames for event in joined(frame)])
    found = model_of(framed).written.tokens.rounds  # type: ignore[arg-type]
    assert [(each.text, each.spans) for each in found] == [
        (each.text, each.spans) for each in tokens_of(*rounds).rounds
    ]
    assert [[token.text for token in each.tokens()] for each in found] == rounds


def test_a_round_is_its_tokens_and_what_was_refused() -> None:
    tokens = tokens_of(["The", " cat", " sat"], [" down"], rejected=["", " up"], guesses=True)
    first, second = (each.tokens() for each in tokens.rounds)
    assert [(token.text, token.fate) for token in first] == [
        ("The", Fate.ACCEPTED),
        (" cat", Fate.ACCEPTED),
        (" sat", Fate.OWN),
    ]
    assert [token.draft_probability for token in first] == [0.75, 0.75, None]
    assert [token.probability for token in first] == [0.5, 0.5, 0.5]
    refused, own = second
    assert (refused.text, refused.fate) == (" up", Fate.REJECTED)
    assert (refused.draft_probability, refused.probability) == (0.6, 0.0001)
    assert (own.text, own.fate) == (" down", Fate.OWN)
    assert [each.count for each in tokens.rounds] == [3, 2]


def test_nothing_is_claimed_where_nobody_told() -> None:
    tokens = tokens_of(["The", " cat"], rejected=[" dog"])
    assert {(t.probability, t.draft_probability) for t in tokens.rounds[0].tokens()} == {
        (None, None)
    }


def test_letters_of_two_units_are_cut_where_tokens_end() -> None:
    tokens = tokens_of(["a🍊", "", "👩‍🚀b"], ["é"])
    texts = [token.text for each in tokens.rounds for token in each.tokens()]
    assert texts == ["a🍊", "", "👩‍🚀b", "é"]


def test_what_is_held_back_to_the_end_belongs_to_the_last_round() -> None:
    model = model_of(told([["a"], ["b"]]))
    last = TokenSpan(7, 2, 4, replace(model.written.tokens.rounds[0].spans[0]).origin)
    model.handle(TextDelta(150.0, "r", "cd", (last,)))
    model.handle(ended(3))
    assert model.written.tokens.rounds[-1].text == "bcd"
    assert [token.text for token in model.written.tokens.rounds[-1].tokens()] == ["b", "cd"]


def test_a_lost_stretch_of_text_harms_no_other() -> None:
    events = list(told([["one"], [" two"], [" three"]]))
    model = model_of(iter([*events[:2], *events[3:]]))  # a round was dropped, its text was not
    assert model.written.tokens.rounds[-1].text == " three"
    assert len(model.written.tokens.rounds) == 2


def test_the_oldest_rounds_of_a_very_long_answer_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.performance.tokens._MOST_KEPT", 6)
    found = tokens_of(*[[f"{number} "] for number in range(20)])
    assert len(found.rounds) <= 6
    assert found.dropped + len(found.rounds) == 20
    last = found.rounds[-1]
    assert found.place(last.done) == len(found.rounds) - 1
    assert last.text == "19 "


def test_a_probability_that_only_the_round_tells_is_shown() -> None:
    events = list(told([["a", "b"]], guesses=True))
    quiet = [
        replace(each, spans=tuple(replace(span, probability=None) for span in each.spans))
        if isinstance(each, TextDelta)
        else each
        for each in events
    ]
    (done,) = model_of(iter(quiet)).written.tokens.rounds
    accepted, own = done.tokens()
    assert accepted.probability == done.done.guesses[0].probability
    assert own.probability is None


def test_rounds_are_found_again() -> None:
    tokens = tokens_of(["a"], ["b"], ["c"])
    assert [tokens.place(each.done) for each in tokens.rounds] == [0, 1, 2]
    stranger = replace(tokens.rounds[1].done, at=0.0)
    assert tokens.place(stranger) is None


# -- what is shown -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the", "the"),
        ("  the ", "··the·"),
        ("\n\n", "↵↵"),
        ("a\tb", "a⇥b"),
        ("", HALF),
        ("世界", "世界"),
        ("👩‍🚀", "👩‍🚀"),
        ("مرحبا", "مرحبا"),
        ("\x00", "▫"),
        ("   ", "···"),
    ],
)
def test_a_token_by_itself_shows_what_cannot_be_seen(text: str, shown: str) -> None:
    assert traced(word(text)) == shown


@given(st.text(max_size=30))
def test_any_token_is_shown_on_one_line(text: str) -> None:
    shown = traced(word(text))
    assert shown
    assert not {"\n", "\r", "\t", "\0"} & set(shown)


def test_a_trace_has_a_row_for_each_round() -> None:
    layout = laid_out(TokenDisplay.TRACE, tokens_of(["The", " cat"], [" sat"], rejected=[" dog"]))
    assert [[chip.shown for chip in row.chips] for row in layout.rows] == [
        ["The", "·dog", "·cat"],
        ["·sat"],
    ]
    assert [(row.top, row.bottom) for row in layout.rows] == [(2.5, 22.5), (22.5, 42.5)]
    assert layout.rows[0].chips[0].left == MEASURES.gutter


def test_a_long_round_goes_on_in_the_next_line() -> None:
    layout = laid_out(TokenDisplay.TRACE, tokens_of(["letters"] * 9), room=200.0)
    (row,) = layout.rows
    assert {chip.y for chip in row.chips} == {2.5 + 20.0 * line for line in range(5)}
    assert all(chip.left + chip.width <= 200 for chip in row.chips)
    long = laid_out(TokenDisplay.TRACE, tokens_of(["l" * 100]), room=200.0).rows[0].chips[0]
    assert long.clipped
    assert long.width == 160.0


def test_running_text_breaks_where_it_does() -> None:
    layout = laid_out(
        TokenDisplay.ACCEPTED, tokens_of(["one", " two"], ["\nthree", "\n\n"], ["four"])
    )
    chips = [(chip.shown, chip.y) for row in layout.rows for chip in row.chips]
    assert chips == [
        ("one", 2.5),
        (" two", 2.5),
        ("↵", 2.5),
        ("three", 22.5),
        ("↵", 22.5),
        ("↵", 42.5),
        ("four", 62.5),
    ]


def test_a_paragraph_from_right_to_left_stands_at_the_right() -> None:
    layout = laid_out(TokenDisplay.ACCEPTED, tokens_of(["مرحبا", " بك"], ["\n", "abc"]))
    first, second, _, last = (chip for row in layout.rows for chip in row.chips)
    assert first.left + first.width == 360.0
    assert second.left + second.width == first.left
    assert last.left == 40.0


@pytest.mark.parametrize("look", TokenDisplay)
def test_what_is_in_view_is_what_all_rows_say(look: TokenDisplay) -> None:
    layout = laid_out(look, model_of(told(many(600))).written.tokens)
    for top in range(0, round(layout.height), 170):
        shown = layout.between(top, top + 90)
        slow = [r for r in layout.rows if r.bottom >= top and r.top < top + 90]
        assert list(shown) == slow
        assert layout.rows[layout.first(top)] is slow[0]


@pytest.mark.parametrize("look", TokenDisplay)
def test_every_token_is_found_where_it_stands(look: TokenDisplay) -> None:
    layout = laid_out(look, model_of(told(many(120))).written.tokens)
    for number, row in enumerate(layout.rows):
        for place, chip in enumerate(row.chips):
            assert layout.at(chip.left + 1, chip.y + 3) == (number, place)
    assert layout.at(-5, 0) is None
    assert layout.at(0, 1e9) is None


def test_what_was_laid_out_stays_as_the_answer_grows() -> None:
    rounds = many(200)
    tokens = model_of(told(rounds)).written.tokens
    layout = ChipLayout(TokenDisplay.ACCEPTED, 300.0, MEASURES)
    layout.grow(tokens.rounds[:20], 60.0)
    before = list(layout.rows)
    assert not layout.grow(tokens.rounds, 0.0)
    while not layout.grow(tokens.rounds, 0.0):
        pass
    assert layout.rows[:20] == before
    assert [row.round for row in layout.rows] == tokens.rounds
    whole = laid_out(TokenDisplay.ACCEPTED, tokens, 300.0)
    assert [row.bottom for row in whole.rows] == [row.bottom for row in layout.rows]


def test_a_round_without_text_has_a_row(round_without: RoundFinished) -> None:
    tokens = AnswerTokens()
    tokens.add(round_without)
    for look in TokenDisplay:
        (row,) = laid_out(look, tokens).rows
        assert row.chips == ()


@pytest.fixture
def round_without() -> RoundFinished:
    return replace(tokens_of(["a"]).rounds[0].done, rejected="")
