"""The speculation: what is computed next, what the target verifies, what stays after a commit."""

from __future__ import annotations

from math import log

import pytest

from engine.backend.round import Candidates
from engine.backend.tree import TokenTree
from engine.speculative.draft_tree import DraftPace, DraftTree

CHAIN = DraftPace(width=1, theta=1.0)


def candidates(first: int, chance: float = 0.8, second: float = 0.1) -> Candidates:
    return [(first, log(chance)), (first + 100, log(second))]


def drafted(speculation: DraftTree, pace: DraftPace, steps: int) -> None:
    """So many steps; below a token comes its successor, or one a hundred further on."""
    for _ in range(steps):
        step = speculation.begin_step(pace)
        assert step is not None
        speculation.end_step([candidates(node.token + 1) for node in step.nodes], 1.0)


def test_a_chain_grows_along_the_likeliest_path() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 4)
    assert speculation.tree(4).tokens == (1, 2, 3, 4, 5)
    assert speculation.tree(4).parents == (-1, 0, 1, 2, 3)
    assert speculation.tree(4).scores == pytest.approx([log(0.8) * i for i in range(5)])


def test_a_rejection_that_is_likelier_than_the_end_of_the_chain_comes_first() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 11)  # 0.8^11 < 0.1
    step = speculation.begin_step(CHAIN)
    assert step is not None
    assert [node.token for node in step.nodes] == [102]


def test_the_theta_rule_takes_nodes_that_are_likelier_than_the_best_ones_child() -> None:
    speculation = DraftTree(1)
    root = speculation.begin_step(DraftPace(width=8, theta=0.5))
    assert root is not None
    assert [node.token for node in root.nodes] == [1]
    found = [(2, log(0.5)), (3, log(0.3)), (4, log(0.2)), (5, log(0.1))]
    speculation.end_step([found], 1.0)
    step = speculation.begin_step(DraftPace(width=8, theta=0.4))
    assert step is not None
    assert [node.token for node in step.nodes] == [2, 3, 4]


def test_committed_tokens_of_the_tree_keep_what_is_below_them() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 4)
    assert speculation.advance([2, 3])
    assert speculation.tree(9).tokens[:3] == (3, 4, 5)
    assert [node.token for node in speculation.path] == [1, 2]
    assert speculation.take_merit().useful == 2.0
    assert speculation.take_merit().useful == 0.0, "told once"


def test_another_token_begins_anew_behind_it() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 4)
    assert not speculation.advance([2, 77])
    assert speculation.tree(9) == TokenTree.root(77)
    merit = speculation.take_merit()
    assert merit.useful == 1.0
    assert merit.wasted == 3.0
    step = speculation.begin_step(CHAIN)
    assert step is not None
    assert [node.token for node in step.pending] == [1, 2]  # nobody has staged them
    assert [node.token for node in step.nodes] == [77]


def test_a_step_whose_nodes_are_gone_is_hopeless_and_wasted() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 1)
    step = speculation.begin_step(CHAIN)
    assert step is not None
    assert not step.hopeless
    speculation.advance([9])
    assert step.hopeless
    speculation.end_step([], 0.5)
    assert speculation.take_merit().wasted == 1.5


def test_a_step_whose_candidates_all_go_unused_was_wasted() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 1)
    assert speculation.take_merit().wasted == 0
    speculation.advance([99])
    merit = speculation.take_merit()
    assert (merit.useful, merit.wasted) == (0, 1.0)


def test_a_cancelled_step_can_be_taken_again() -> None:
    speculation = DraftTree(1)
    first = speculation.begin_step(CHAIN)
    speculation.end_step([], 0.5)
    again = speculation.begin_step(CHAIN)
    assert first is not None
    assert again is not None
    assert again.nodes == first.nodes


def test_no_more_is_drafted_ahead_than_allowed() -> None:
    speculation = DraftTree(1)
    pace = DraftPace(width=1, theta=1.0, ahead=3)
    drafted(speculation, pace, 4)  # the root is not ahead
    assert speculation.begin_step(pace) is None
    speculation.advance([2])
    assert speculation.begin_step(pace) is not None


def test_nothing_is_drafted_below_the_floor() -> None:
    speculation = DraftTree(1)
    pace = DraftPace(width=1, theta=1.0, floor=0.7)
    drafted(speculation, pace, 2)
    assert speculation.begin_step(pace) is None


def test_the_proposals_of_others_are_grafted_on() -> None:
    speculation = DraftTree(1)
    drafted(speculation, CHAIN, 1)
    chain = TokenTree((1, 2, 50, 51), (-1, 0, 1, 2), (0.0, log(0.9), log(0.6), log(0.5)))
    speculation.graft(chain)
    assert speculation.tree(3).tokens == (1, 2, 50, 51)
    assert speculation.tree(3).scores[1] == pytest.approx(log(0.9))
    step = speculation.begin_step(DraftPace(width=3, theta=0.1))
    assert step is not None
    assert [node.token for node in step.nodes] == [2, 50, 51]
    speculation.graft(TokenTree((8, 9), (-1, 0), (0.0, 0.0)))  # of another root
    assert 9 not in speculation.tree(9).tokens


def test_of_equals_the_parent_comes_first_also_once_more() -> None:
    """What was cancelled is open again, and what somebody has proposed below it hangs on it."""
    speculation = DraftTree(1)
    speculation.graft(TokenTree((1, 2), (-1, 0), (0.0, 0.0)))
    for _ in range(2):
        step = speculation.begin_step(CHAIN)
        assert step is not None
        assert [node.token for node in step.nodes] == [1]
        speculation.end_step([], 0.1)


def test_what_is_computed_is_not_computed_again_for_a_better_score() -> None:
    speculation = DraftTree(1)
    speculation.graft(TokenTree((1, 2), (-1, 0), (0.0, log(0.5))))
    step = speculation.begin_step(DraftPace(width=2, theta=0.1))
    assert step is not None
    assert [node.token for node in step.nodes] == [1, 2]
    speculation.end_step([[(2, log(0.9))], [(3, log(0.9))]], 0.1)
    again = speculation.begin_step(DraftPace(width=2, theta=0.1))
    assert again is not None
    assert [node.token for node in again.nodes] == [3]
