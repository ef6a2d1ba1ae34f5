"""The KV cache of a feature head that drafts while its target verifies.

Keys of committed tokens come from the target's features and stay. Below the root the head goes on
from its own outputs, as it does deeper in a tree; once tokens are committed all of that is
forgotten, and computed once more where it is still of use.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.native.pool import CancelFlag
from engine.backend.round import Expanded
from engine.backend.sequence import ROOT, FeatureStore
from engine.speculative.beginnings import Beginnings
from engine.speculative.draft_cache import Computed, DraftCache, Settlement
from engine.speculative.draft_tree import DraftStep, Node
from engine.speculative.sampler import Sampler


class HeadCache(DraftCache):
    """A feature head that computes the nodes of a draft tree.

    Its pair t is the target's feature of token t beside token t + 1: the sequence's first token is
    none of its own.

    Args:
        head: the draft.
        beginnings: where it begins to read, answer after answer.
        features: the target's, of all committed tokens but the root.
    """

    def __init__(self, head: Decoder, beginnings: Beginnings, features: FeatureStore) -> None:
        super().__init__(head, beginnings)
        self._features = features
        self._first = True  # the sequence's first token is still to come

    def begin(self, tokens: Sequence[int]) -> Sequence[int]:
        """See `DraftCache`."""
        self._first = not tokens
        return super().begin(tokens)

    def process(self, tokens: Sequence[int], sampler: Sampler, cancel: CancelFlag) -> bool:
        """See `DraftCache`."""
        return self._follow(tokens, (), sampler, cancel) is not None

    def compute(self, step: DraftStep, sampler: Sampler, cancel: CancelFlag) -> Computed | None:
        """Compute the root, and commit it with what is pending before it, or stage nodes below it.

        Returns None where it was cancelled, or where there is no room before the next commit.
        """
        if not step.behind_commits:
            return self._go_on(step.nodes, sampler, cancel)
        nodes = [*step.pending, *step.nodes]
        if not self.has_room(len(self._own) + len(nodes) - 1):
            return Computed(0, [[]])
        found = self._follow([node.token for node in nodes], nodes[-1:], sampler, cancel)
        if found is None:
            return None
        self.settled(nodes)
        return Computed(len(nodes), found.candidates or [[]])

    def _follow(
        self, tokens: Sequence[int], wanted: Sequence[Node], sampler: Sampler, cancel: CancelFlag
    ) -> Expanded | None:
        """Commit tokens that follow those of the state, from the target's features.

        Args:
            tokens: at least one.
            wanted: the node of the last one, where what may follow it is asked for.
            sampler, cancel: see `compute`.
        """
        tokens, self._first = tokens[self._first :], False
        if not tokens:
            return Expanded([], np.empty((0, 0), dtype=np.float32))
        state, count = self._own, len(tokens)
        before = self.beginnings.shift + len(state)
        known = self._features.rows(before, before + count)
        rows = [count - 1] if wanted else []
        found = self._expand(tokens, range(-1, count - 1), rows, sampler, cancel, known)
        if found is not None:
            state.commit(range(count))
            for node in wanted:
                node.output = found.outputs[-1].copy()
        return found

    def _go_on(
        self, nodes: Sequence[Node], sampler: Sampler, cancel: CancelFlag
    ) -> Computed | None:
        """Stage nodes below the root, computed from the outputs at their parents."""
        above = [node.parent.staged for node in nodes if node.parent is not None]
        known = [node.parent.output for node in nodes if node.parent is not None]
        parents = [ROOT if staged is None else staged for staged in above]
        root = len(self._own) - 1
        positions = [1 + (root if each == ROOT else self._positions[each]) for each in parents]
        first = len(self._staged)
        if not self.has_room(max(positions)):
            return Computed(0, [[] for _ in nodes])
        if len(self._own) + first + len(nodes) > self._own.slots:
            return None
        tokens, rows = [node.token for node in nodes], range(len(nodes))
        outputs = np.stack([output for output in known if output is not None])
        found = self._expand(tokens, parents, rows, sampler, cancel, outputs)
        if found is None:
            return None
        for staged, (node, output) in enumerate(zip(nodes, found.outputs, strict=True), first):
            node.staged, node.output = staged, output.copy()
        self._staged += nodes
        self._positions += positions
        return Computed(len(nodes), found.candidates)

    def renew(self, path: Sequence[Node]) -> int:
        """Forget what was computed from the head's own outputs, since tokens were committed.

        Returns:
            How many of the first committed nodes of `path` are among the state's tokens.
        """
        self._forget_staged()
        return len(self.settlement(path).passed)

    @property
    def crowded(self) -> bool:
        """See `DraftCache`; what is staged is forgotten soon enough."""
        return False

    def settle(self, settlement: Settlement) -> None:
        """See `DraftCache`; the keys of committed tokens are in place already."""
        self.settled(settlement.passed)

    def end(self, path: Sequence[Node]) -> None:
        """See `DraftCache`."""
        del path
        if self._state is not None:
            self._state.discard()
