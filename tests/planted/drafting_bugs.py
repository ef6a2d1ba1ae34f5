"""Planted bugs of drafters, their states and their trees; see `bugs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def head_keeps_keys_of_guessed_features() -> None:
    """Drafted pairs that were accepted stay, though the head had guessed their features."""
    from engine.speculative.drafters.model import HeadDrafter, StandaloneDrafter

    HeadDrafter.observe = StandaloneDrafter.observe  # type: ignore[method-assign, assignment]


def head_pairs_shifted() -> None:
    """A token goes with its own feature, which the head has yet to foresee."""
    from engine.speculative.drafters.model import HeadDrafter

    def features(_self: Any, context: Any, start: int, stop: int) -> Any:
        return context.features.rows(start + 1, stop + 1)

    HeadDrafter._features = features  # type: ignore[method-assign]


def pairs_of_another_beginning() -> None:
    """A head's tokens lack the first, and all features after it tell of it."""
    from engine.speculative.drafters.model import DecoderDrafter, HeadDrafter

    HeadDrafter.begin = DecoderDrafter.begin  # type: ignore[method-assign]


def features_left_among_rejected_nodes() -> None:
    """Committing a path moves its keys, and not its features."""
    from engine.backend.sequence import FeatureStore

    FeatureStore.move = lambda _self, _sources, _target: None  # type: ignore[method-assign]


def features_of_cut_tokens() -> None:
    """A state goes back, and where it has had features before it takes no new ones."""
    from engine.backend.sequence import FeatureStore

    honest = FeatureStore.put
    filled: dict[int, int] = {}

    def put(self: Any, first: int, rows: Any) -> None:
        there = min(max(filled.get(id(self), 0) - first, 0), len(rows[0]))
        honest(self, first + there, [tap[there:] for tap in rows])
        filled[id(self)] = max(filled.get(id(self), 0), first + len(rows[0]))

    FeatureStore.put = put  # type: ignore[method-assign]


def node_without_its_parent() -> None:
    """Nodes are chosen by their own scores, and one whose parent is left out hangs on nothing."""
    from engine.backend.tree import TokenTree

    def build(token: int, nodes: Any, most: int | None = None) -> TokenTree:
        every = [(-1, token, 0.0), *nodes]
        ranked = sorted(range(len(every)), key=lambda node: -every[node][2] if node else -1.0)
        kept = ranked if most is None else ranked[: most + 1]
        place = {node: index for index, node in enumerate(kept)}
        parents, tokens, scores = zip(*(every[node] for node in kept), strict=True)
        return TokenTree(tokens, tuple(place.get(parent, -1) for parent in parents), scores)

    TokenTree.build = build  # type: ignore[method-assign]


def draft_keeps_rejected_keys() -> None:
    """The draft commits its own likeliest path whatever the target said."""
    from engine.speculative.drafters.model import StandaloneDrafter

    def observe(self: Any, committed: Sequence[int]) -> None:
        state = self._state
        if state is not None and state.staged:
            state.commit([0])
            state._tokens[-1] = committed[0]

    StandaloneDrafter.observe = observe  # type: ignore[method-assign]


def drafted_keys_below_the_wrong_node() -> None:
    """The state takes all nodes that one call has staged for children of the root."""
    from engine.backend.sequence import SequenceState

    honest = SequenceState.adopt

    def adopt(self: Any, tokens: Sequence[int], parents: Sequence[int]) -> None:
        honest(self, tokens, [-1] * len(parents) if isinstance(parents, list) else parents)

    SequenceState.adopt = adopt  # type: ignore[method-assign]


def orphan_parent() -> None:
    """A node outlives its parent when their scores tie."""
    from engine.backend.tree import TokenTree

    def build(token: int, nodes: Any, most: int | None = None) -> TokenTree:
        tree = honest(token, nodes)
        ranked = sorted(range(1, len(tree)), key=lambda node: (-tree.scores[node], -node))
        kept = [0, *ranked[: len(tree) if most is None else most]]
        new = {old: index for index, old in enumerate(kept)}
        return TokenTree(
            tuple(tree.tokens[node] for node in kept),
            tuple(new.get(tree.parents[node], 0) if node else -1 for node in kept),
            tuple(tree.scores[node] for node in kept),
        )

    honest = TokenTree.build
    TokenTree.build = build  # type: ignore[method-assign]


def target_deaf_to_a_stop() -> None:
    """A forward of the target runs to its end, however long it takes."""
    from engine.speculative.decoding import Decoding

    honest = Decoding.__init__

    def deaf(self: Any, *arguments: Any, **named: Any) -> None:
        honest(self, *arguments, **named)
        self._cancel = None

    Decoding.__init__ = deaf  # type: ignore[method-assign]


def drafts_deaf_to_a_stop() -> None:
    """The native call that drafts a whole tree is not told of the user's stop."""
    from engine.backend.native.calls import DraftCall

    honest = DraftCall.__call__

    def call(self: Any, *arguments: Any) -> Any:
        return honest(self, *arguments[:4])

    DraftCall.__call__ = call  # type: ignore[method-assign]


def disturbed_rounds_never_forgotten() -> None:
    """What was learnt while other programs held the processor holds as long as drafting rests."""
    from engine.speculative.costs import Mean

    Mean.fade = lambda _self: None  # type: ignore[method-assign]


def budgets_priced_by_the_level() -> None:
    """The controller reckons with so many levels, whatever the drafter says a budget takes."""
    from engine.speculative.budgets import TreeBudgets

    def usual(self: Any, goes_on: float, width: int) -> int:
        def rate(depth: int) -> float:
            tokens = sum(goes_on**level for level in range(depth + 1))
            return tokens / (depth * self._costs.of(width) + self._verify.of(depth + 1))

        return max(range(1, 11), key=rate)

    TreeBudgets._usual_depth = usual  # type: ignore[method-assign]


def drafts_without_ways_back() -> None:
    """A recurrent draft keeps no snapshots: another end of a prompt is read from its beginning."""
    from engine.speculative.beginnings import Beginnings

    Beginnings.keep = lambda _self, _state, _left: None  # type: ignore[method-assign]
