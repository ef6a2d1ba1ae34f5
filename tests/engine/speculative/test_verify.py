"""Sample-then-match, step by step."""

from __future__ import annotations

import numpy as np

from engine.backend.round import Verified
from engine.backend.tree import TokenTree
from engine.request import SamplingParams
from engine.speculative.decoding import verify
from engine.speculative.sampler import Sampler

# The root 9 has the children 5 and 6; 5 has the children 7 and 8.
TREE = TokenTree.build(9, [(0, 5, -0.1), (1, 7, -0.2), (1, 8, -0.3), (0, 6, -1.0)])


def walk(choices: dict[int, int], limit: int = 10, stop_ids: tuple[int, ...] = ()) -> Verified:
    """Verify TREE with a target that answers `choices`: token of the node -> its next token."""
    logits = np.zeros((len(TREE), 12), dtype=np.float32)
    for node, token in enumerate(TREE.tokens):
        logits[node, choices.get(token, 0)] = 1
    sampler = Sampler(SamplingParams())
    return verify(TREE, logits, sampler, [1, 9], limit=limit, stop_ids=stop_ids)


def test_the_walk_descends_as_far_as_the_target_agrees() -> None:
    done = walk({9: 5, 5: 8, 8: 3})
    assert done.tokens == (5, 8, 3)
    assert [TREE.tokens[node] for node in done.path] == [9, 5, 8]
    assert (done.accepted, done.offered_by_depth, done.accepted_by_depth) == (2, (1, 1), (1, 1))


def test_a_token_nobody_drafted_is_the_targets_own() -> None:
    done = walk({9: 4})
    assert (done.tokens, done.path, done.accepted) == ((4,), (0,), 0)
    assert (done.offered_by_depth, done.accepted_by_depth) == ((1,), (0,))


def test_the_second_sibling_can_be_right() -> None:
    done = walk({9: 6, 6: 2})
    assert done.tokens == (6, 2)
    assert done.accepted == 1


def test_nothing_follows_an_end_token() -> None:
    done = walk({9: 5, 5: 7, 7: 1}, stop_ids=(5,))
    assert done.tokens == (5,)
    assert done.path == (0,)
    assert done.accepted == 1


def test_the_limit_holds() -> None:
    assert walk({9: 5, 5: 7, 7: 1}, limit=2).tokens == (5, 7)
    assert walk({9: 5, 5: 7, 7: 1}, limit=1).tokens == (5,)


def test_a_root_alone_gives_one_token() -> None:
    logits = np.eye(1, 12, 3, dtype=np.float32)
    done = verify(TokenTree.root(9), logits, Sampler(SamplingParams()), [9], limit=5)
    assert done.tokens == (3,)
    assert done.offered_by_depth == ()
