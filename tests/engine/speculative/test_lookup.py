"""Lookup drafting finds what was said before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.backend.round import Budget
from engine.backend.tree import TokenTree, chain
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.lookup import BRANCHES, MOST, SHORTEST, LookupDrafter
from engine.speculative.sampler import Sampler

BUDGET = Budget(nodes=8, depth=4, width=4)


def context(tokens: list[int]) -> DraftContext:
    return DraftContext(tokens, Sampler(SamplingParams()), lambda: False)


def propose(tokens: list[int], budget: Budget = BUDGET) -> TokenTree:
    drafter = LookupDrafter()
    drafter.begin(context(tokens))
    return drafter.propose(context(tokens), budget)


def test_it_continues_a_repeat() -> None:
    tree = propose([1, 2, 3, 4, 5, 6, 7, 2, 3])
    assert tree.tokens == (3, 4, 5, 6, 7)
    assert tree.depths == (0, 1, 2, 3, 4)


def test_two_continuations_become_siblings() -> None:
    tree = propose([1, 2, 3, 1, 2, 4, 9, 1, 2])
    assert {tree.tokens[node] for node in tree.children()[0].values()} == {3, 4}


def test_the_longer_match_wins() -> None:
    tree = propose([7, 1, 2, 5, 8, 1, 2, 6, 7, 1, 2])
    assert list(tree.children()[0]) == [5]


def test_nothing_known_gives_the_root_alone() -> None:
    assert propose([1, 2, 3, 4]).drafted == 0
    assert propose([1]).drafted == 0


@given(tokens=st.lists(st.integers(0, 3), min_size=1, max_size=60))
def test_every_proposal_really_occurred(tokens: list[int]) -> None:
    tree = propose(tokens)
    paths: list[tuple[int, ...]] = []
    for node, parent in enumerate(tree.parents):
        paths.append(() if node == 0 else (*paths[parent], tree.tokens[node]))
    assert tree.drafted <= BUDGET.nodes
    assert len(tree.children()[0]) <= BRANCHES
    grams = {
        tuple(tokens[i : i + n])
        for n in range(1, SHORTEST + BUDGET.depth + 1)
        for i in range(len(tokens) - n + 1)
    }
    for path in paths[1:]:
        assert (*tokens[-SHORTEST:], *path) in grams


@given(pieces=st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=12))
def test_growing_and_starting_over_know_the_same(pieces: list[list[int]]) -> None:
    tokens = [0, 1]
    grown = LookupDrafter()
    grown.begin(context(tokens))
    for piece in pieces:
        tokens = [*tokens, *piece]
        grown.observe(piece)
    shape = Budget(nodes=8, depth=4, width=4)
    fresh = LookupDrafter()
    fresh.begin(context(tokens))
    assert (
        grown.propose(context(tokens), shape).tokens == fresh.propose(context(tokens), shape).tokens
    )


def test_another_conversation_forgets_the_first() -> None:
    drafter = LookupDrafter()
    drafter.begin(context([1, 2, 3, 4, 5]))
    drafter.begin(context([9, 2, 3]))
    assert drafter.propose(context([9, 2, 3]), BUDGET).drafted == 0


def test_a_source_that_is_wrong_scores_lower() -> None:
    drafter = LookupDrafter()
    tokens = [1, 2, 3, 4] * 3
    drafter.begin(context(tokens))
    before = drafter.propose(context(tokens), BUDGET).scores[1]
    for wrong in range(50, 60):
        drafter.begin(context(tokens))
        drafter.propose(context(tokens), BUDGET)
        drafter.observe([wrong])
    again = LookupDrafter()
    again._hits, again._tries = drafter._hits, drafter._tries
    again.begin(context(tokens))
    assert again.propose(context(tokens), BUDGET).scores[1] < before


def test_a_long_match_goes_far_and_a_short_one_does_not() -> None:
    text = list(range(100, 160))
    drafter = LookupDrafter()
    drafter.begin(context([*text, 1, *text[:3]]))
    short = drafter.at_once(context([*text, 1, *text[:3]]), 50)
    drafter.begin(context([*text, 1, *text[:20]]))
    long = drafter.at_once(context([*text, 1, *text[:20]]), 50)
    assert short.tokens[1:] == tuple(text[3 : 3 + short.drafted])
    assert long.tokens[1:] == tuple(text[20 : 20 + long.drafted])
    assert short.drafted <= 8
    assert long.drafted == MOST
    assert long.scores[1] > short.scores[1]


def test_it_goes_on_behind_what_a_model_has_drafted() -> None:
    text = list(range(100, 140))
    drafter = LookupDrafter()
    drafter.begin(context([*text, 1, 2]))
    drafted = chain(2, [103, 104, 105], [-0.1, -0.2, -0.4])
    tree = drafter.extended(drafted)
    assert tree.tokens[:4] == drafted.tokens
    assert tree.tokens[4:8] == (106, 107, 108, 109)
    assert tree.parents[1:] == tuple(range(len(tree) - 1))
    assert tree.scores[4] < -0.4
    assert tree.weight(3) is not None
    assert tree.weight(4) is None, "no model has drafted it"
    unknown = chain(2, [7, 8], [-0.1, -0.2])
    assert drafter.extended(unknown) == unknown
    assert drafter.extended(TokenTree.root(2)).drafted == 0
