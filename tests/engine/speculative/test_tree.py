"""TokenTree: closed under parents, whatever is built, merged or cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.tree import ROOT_PARENT, TokenTree, chain, follow

Nodes = list[tuple[int, int, float]]


@st.composite
def drafted(draw: st.DrawFn) -> Nodes:
    count = draw(st.integers(0, 25))
    return [
        (
            draw(st.integers(0, node)),
            draw(st.integers(0, 6)),
            draw(st.floats(-9, 0, width=32)),
        )
        for node in range(count)
    ]


def paths(tree: TokenTree) -> set[tuple[int, ...]]:
    """Every path from the root, as tokens."""
    found: list[tuple[int, ...]] = []
    for node, parent in enumerate(tree.parents):
        found.append(() if parent == ROOT_PARENT else (*found[parent], tree.tokens[node]))
    return set(found)


def assert_is_ranked(tree: TokenTree) -> None:
    assert list(tree.scores) == sorted(tree.scores, reverse=True)
    assert_is_tree(tree)


def assert_is_tree(tree: TokenTree) -> None:
    assert tree.parents[0] == ROOT_PARENT
    assert tree.scores[0] == 0
    for node in range(1, len(tree)):
        parent = tree.parents[node]
        assert 0 <= parent < node, "a node comes before its parent, or has none"
        assert tree.scores[node] <= tree.scores[parent]
    assert len(paths(tree)) == len(tree), "two siblings have the same token"


@given(nodes=drafted(), most=st.integers(0, 30))
def test_cutting_keeps_the_best_and_all_their_ancestors(nodes: Nodes, most: int) -> None:
    whole = TokenTree.build(1, nodes)
    assert_is_ranked(whole)
    cut = whole.best(most)
    assert_is_ranked(cut)
    assert cut.drafted == min(most, whole.drafted)
    assert paths(cut) <= paths(whole)
    dropped = sorted(whole.scores)[: whole.drafted - cut.drafted]
    if dropped and cut.drafted:
        assert min(cut.scores) >= max(dropped)


@given(first=drafted(), second=drafted())
def test_merging_is_the_union_of_paths(first: Nodes, second: Nodes) -> None:
    one, two = TokenTree.build(1, first), TokenTree.build(1, second)
    merged = one.merge(two)
    assert_is_ranked(merged)
    assert paths(merged) == paths(one) | paths(two)


@given(nodes=drafted(), depth=st.integers(0, 6))
def test_a_depth_limit_drops_exactly_the_deeper_nodes(nodes: Nodes, depth: int) -> None:
    tree = TokenTree.build(1, nodes)
    limited = tree.limited(depth)
    assert_is_ranked(limited)
    assert paths(limited) == {path for path in paths(tree) if len(path) <= depth}


@given(nodes=drafted(), path=st.lists(st.integers(0, 6), max_size=6))
def test_a_path_is_followed_as_far_as_it_goes(nodes: Nodes, path: list[int]) -> None:
    tree = TokenTree.build(1, nodes)
    expected, node = [], 0
    for token in path:
        if (child := tree.children()[node].get(token)) is None:
            break
        expected.append(child)
        node = child
    assert follow(tree.tokens, tree.parents, path, 0) == expected


def test_a_chain_is_a_tree() -> None:
    tree = chain(4, [5, 6, 7], [-0.1, -0.2, -0.3])
    assert tree.parents == (ROOT_PARENT, 0, 1, 2)
    assert TokenTree.root(4).drafted == 0
    assert tree.children()[1] == {6: 2}


def test_a_score_above_its_parents_is_no_orphan() -> None:
    """The official code's fp16 ties can keep a child and drop its parent; ours cannot."""
    tree = TokenTree.build(1, [(0, 2, -3.0), (1, 3, -1.0), (0, 4, -2.0)], most=2)
    assert_is_tree(tree)
    assert paths(tree) == {(), (4,), (2,)}


def test_a_node_of_a_missing_parent_is_refused() -> None:
    with pytest.raises(IndexError):
        TokenTree.build(1, [(3, 2, -1.0)])
