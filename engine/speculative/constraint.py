"""A grammar as a filter of the draws: which tokens may follow a path, and which have to.

It is a pure function of the path, so the same seed gives the same text whatever is drafted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engine.backend.tree import TokenTree
from engine.errors import UserFixable
from engine.language import tr

if TYPE_CHECKING:
    from engine.model.text.grammar import GrammarMatcher


class Constraint:
    """The grammar of one answer.

    The matcher stands behind the tokens that it was asked about last: going on costs only what is
    new, and a path that is given up is taken back.

    Args:
        matcher: follows the grammar.
        start: position of the first token that has to follow it.
    """

    def __init__(self, matcher: GrammarMatcher, start: int) -> None:
        self._matcher = matcher
        self._start = start
        self._behind: list[int] = []

    def allowed(self, tokens: Sequence[int], path: Sequence[int] = ()) -> NDArray[np.uint32]:
        """Return the tokens that may follow `tokens` and `path`, a bit each, the lowest first.

        The array holds until the next call.

        Raises:
            UserFixable: the grammar does not allow `tokens`, or is too much work.
        """
        self._go_to(tokens, path)
        return self._matcher.allowed()

    def forced(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens that have to follow, as far as there is no choice."""
        self._go_to(tokens)
        return self._matcher.forced()

    def pruned(self, tree: TokenTree, tokens: Sequence[int]) -> TokenTree:
        """Return a tree without the nodes that may not follow `tokens`."""
        if not tree.drafted:
            return tree
        self._go_to(tokens)
        kept = {0}
        for leaf in sorted(set(range(1, len(tree))) - set(tree.parents), reverse=True):
            nodes = tree.path_to(leaf)
            kept.update(nodes[: self._matcher.fitting([tree.tokens[node] for node in nodes])])
        return tree if len(kept) == len(tree) else tree.arranged(sorted(kept))

    def _go_to(self, tokens: Sequence[int], path: Sequence[int] = ()) -> None:
        wanted, behind = [*tokens[self._start :], *path], self._behind
        common = len(behind)
        if wanted[:common] != behind:
            pairs = zip(wanted, behind, strict=False)
            common = next((at for at, (new, old) in enumerate(pairs) if new != old), len(wanted))
            self._matcher.take_back(len(behind) - common)
        if common < len(wanted) and not self._matcher.consume(wanted[common:]):
            raise UserFixable(
                tr("The beginning of the answer does not follow the grammar."),
                tr("Ask without it, or with another grammar."),
            )
        self._behind = wanted


def mask(allowed: NDArray[np.uint32], vocab: int) -> NDArray[np.bool_]:
    """Return the bits of `Constraint.allowed` as [vocab] truth values."""
    octets = allowed.astype("<u4").view(np.uint8)
    return np.unpackbits(octets, count=vocab, bitorder="little").view(np.bool_)
