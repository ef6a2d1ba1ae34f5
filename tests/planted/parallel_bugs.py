"""Planted bugs of drafting while the target verifies; see `bugs`."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappush
from itertools import count
from typing import Any


def drafted_tail_shown() -> None:
    """The official DuoDecoding code returns what the next round was to verify."""
    from engine.speculative import loops

    def tail(self: Any, most: int) -> Any:
        drafted.append(honest_tree(self, most))
        return drafted[-1]

    def shown(done: Any, **more: Any) -> Any:
        tree = drafted[-1] if drafted else None
        if tree is None or not tree.drafted or not hasattr(done, "drafting"):
            return honest(done, **more)
        beyond = honest(done.verified, tokens=(*done.tokens, tree.tokens[-1]))
        return honest(done, verified=beyond, **more)

    from engine.speculative.draft_worker import DraftWorker

    drafted: list[Any] = []
    honest, honest_tree = loops.replace, DraftWorker.tree
    DraftWorker.tree = tail  # type: ignore[method-assign]
    loops.replace = shown  # type: ignore[attr-defined]


def own_token_kept_from_the_draft() -> None:
    """The draft learns which of its tokens were accepted, and not what the target wrote then."""
    from engine.speculative.draft_worker import DraftWorker

    honest = DraftWorker.commit

    def commit(self: Any, tokens: Sequence[int]) -> Any:
        return honest(self, tokens[: max(len(tokens) - 1, 1)])

    DraftWorker.commit = commit  # type: ignore[method-assign]


def tokens_behind_a_stop_string_counted() -> None:
    """A round's tokens all belong to the answer, also those behind the string that ends it."""
    from engine.session.answer import Answer

    honest = Answer._take

    def take(self: Any, done: Any) -> Any:
        counted, released = honest(self, done)
        self._ids += done.tokens[counted:]
        return len(done.tokens), released

    Answer._take = take  # type: ignore[method-assign]


def settled_keys_left_where_they_were() -> None:
    """Nodes that stay staged are renumbered, and their keys do not come along."""
    from engine.backend.sequence import SequenceState

    honest = SequenceState.settle

    def settle(self: Any, path: Sequence[int], keep: Sequence[int]) -> None:
        caches, self.caches = self.caches, ()
        try:
            honest(self, path, keep)
        finally:
            self.caches = caches

    SequenceState.settle = settle  # type: ignore[method-assign]


def guesses_kept_for_the_next_answer() -> None:
    """At the end of an answer the draft commits what it holds likeliest, too."""
    from engine.speculative.draft_cache import DraftCache

    honest = DraftCache.end

    def end(self: Any, path: Sequence[Any]) -> None:
        root = path[-1]
        staged = [node for node in root.children.values() if node.staged is not None]
        honest(self, [*path, *staged[:1]])

    DraftCache.end = end  # type: ignore[method-assign]


def lane_outlives_its_answer() -> None:
    """Nobody waits for the draft's thread, which goes on with the last answer's tokens."""
    from engine.speculative.draft_worker import DraftWorker

    DraftWorker.stop = lambda _self: None  # type: ignore[method-assign]


def failures_of_the_draft_swallowed() -> None:
    """An error ends the draft's thread, and nobody is told."""
    from engine.speculative.draft_worker import DraftWorker

    DraftWorker._check = lambda _self: None  # type: ignore[method-assign]


def merit_counted_twice() -> None:
    """Every round is told of all useful and wasted seconds since the answer began."""
    from engine.speculative.draft_tree import DraftTree

    DraftTree.take_merit = lambda self: self.merit  # type: ignore[method-assign]


def ties_by_the_order_of_calls() -> None:
    """A cancelled node queues up again behind its own children, which have nothing to hang on."""
    from engine.speculative.draft_tree import DraftTree

    order = count()

    def push(self: Any, node: Any) -> None:
        heappush(self._open, (-node.score, next(order), node))

    DraftTree._push = push  # type: ignore[method-assign]


def grafts_computed_twice() -> None:
    """A better score makes a node open again whose candidates are known."""
    from engine.speculative.draft_tree import DraftTree

    honest = DraftTree._add

    def add(self: Any, parent: Any, token: int, score: float, step: Any, *more: Any) -> None:
        honest(self, parent, token, score, step, *more)
        child = parent.children[token]
        if child.computed and score > child.score:
            child.score = min(score, parent.score)
            self._push(child)

    DraftTree._add = add  # type: ignore[method-assign]


def own_features_kept_behind_a_commit() -> None:
    """What a head made of its own outputs stays where the target has agreed, as a model's does."""
    from engine.speculative.draft_cache import DraftCache
    from engine.speculative.head_cache import HeadCache

    honest = HeadCache.renew

    def renew(self: Any, path: Sequence[Any]) -> int:
        agreed = [node for node in path if node.staged is not None and node.staged >= 0]
        self._own.settle([node.staged for node in agreed], [])
        DraftCache.settled(self, agreed)
        self._staged = [node for node in self._staged if node not in agreed]
        return honest(self, path)

    HeadCache.renew = renew  # type: ignore[method-assign]


def rejected_pairs_of_a_head_stay() -> None:
    """Pairs of rejected tokens stay staged, and are committed in the place of what came instead."""
    from engine.speculative.head_cache import HeadCache

    honest = HeadCache.renew

    def renew(self: Any, path: Sequence[Any]) -> int:
        state = self._own
        discard, state.discard = state.discard, lambda: None
        try:
            return honest(self, path)
        finally:
            state.discard = discard

    HeadCache.renew = renew  # type: ignore[method-assign]


def noise_counted_from_where_reading_began() -> None:
    """A draft that has read the end only ranks with the noise of positions as it counts them."""
    from engine.speculative.beginnings import Beginnings

    Beginnings.shifted = lambda _self, ranking: ranking  # type: ignore[method-assign]
