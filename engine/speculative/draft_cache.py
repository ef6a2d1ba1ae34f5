"""The KV cache of a draft tree: the draft model computes nodes here, and their keys stay.

Nodes are staged behind the tokens that the state has committed, and stay where they are while the
root moves along: what is committed is settled, and what is dead forgotten, only once there is much
of it. One thread uses all of this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.native.pool import CancelFlag
from engine.backend.round import Candidates, Expanded
from engine.backend.sequence import ROOT, SequenceState
from engine.model.weights.readable import Floats
from engine.speculative.beginnings import Beginnings
from engine.speculative.draft_tree import DraftStep, Node
from engine.speculative.sampler import Sampler

BRANCHES = 8
"""Candidates of a node: DuoDecoding's theta rule looks at the first eight, too."""


@dataclass(frozen=True, slots=True)
class Settlement:
    """The fate of the staged nodes: which are committed and which stay staged.

    Attributes:
        passed: committed ones, oldest first.
        kept: which stay staged, ascending.
    """

    passed: list[Node]
    kept: list[int]


@dataclass(frozen=True, slots=True)
class Computed:
    """The outcome of one drafting step.

    Attributes:
        rows: of its forward: its nodes, and those above them that the draft had still to see.
        candidates: of each node; none past the end of the draft's context.
    """

    rows: int
    candidates: list[Candidates]


class DraftCache:
    """A draft model that computes the nodes of a draft tree.

    Args:
        draft: the draft model.
        beginnings: where it begins to read, answer after answer.
    """

    def __init__(self, draft: Decoder, beginnings: Beginnings) -> None:
        self._draft = draft
        self.beginnings = beginnings
        self._pool = beginnings.pool
        self._state: SequenceState | None = None
        self._staged: list[Node | None] = []  # as the state's; None for one computed once more
        self._positions: list[int] = []  # of the staged nodes
        self._enough = MAX_TREE // 2  # staged nodes at which it is time to settle

    # -- the committed tokens ------------------------------------------------------------------

    def begin(self, tokens: Sequence[int]) -> Sequence[int]:
        """Take the kept state that shares most of what it is to read; return the tokens it lacks.

        What was staged is forgotten: it was computed behind another beginning.

        Args:
            tokens: all committed tokens before the root.

        Raises:
            OutOfMemory: there is no memory for a state.
        """
        self._forget_staged()
        own = tokens[self.beginnings.start :]
        state = self._state = self._pool.take(own)
        state.crop(state.common_prefix(own))
        self._pool.snapshot(state)  # the border between two turns
        return own[len(state) :]

    def piece(self, left: int) -> int:
        """Return how many of so many tokens that are left to read are processed at once."""
        return self.beginnings.piece(self._own, left)

    def keep(self, left: int) -> None:
        """Keep a way back, where one is needed, with so many tokens left to read."""
        self.beginnings.keep(self._own, left)

    def _forget_staged(self) -> None:
        if self._state is not None:
            self._state.discard()
        for node in self._staged:
            if node is not None:
                node.staged = None
        self._staged, self._positions = [], []

    def process(self, tokens: Sequence[int], sampler: Sampler, cancel: CancelFlag) -> bool:
        """Commit tokens that follow those of the state, unless cancelled; nothing may be staged."""
        rows = range(len(tokens))
        if self._expand(tokens, range(-1, len(tokens) - 1), (), sampler, cancel) is None:
            return False
        self._own.commit(rows)
        return True

    def _expand(
        self,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        sampler: Sampler,
        cancel: CancelFlag,
        features: Floats | None = None,
    ) -> Expanded | None:
        """See `Decoder.expand`."""
        ranking = self.beginnings.shifted(sampler.ranking)
        return self._draft.expand(
            self._own, tokens, parents, wanted, ranking, BRANCHES, cancel, features
        )

    def has_room(self, position: int) -> bool:
        """Tell whether a token fits into the draft's context, at a position that it counts."""
        return position < self._pool.context

    def reaches(self, length: int) -> bool:
        """Tell whether the root fits in, which is the last of so many committed tokens."""
        return self.has_room(length - 1 - self.beginnings.shift)

    @property
    def begun(self) -> bool:
        """Tell whether it has a state."""
        return self._state is not None

    def end(self, path: Sequence[Node]) -> None:
        """End the answer; the keys of committed tokens are kept for the next one.

        Args:
            path: committed nodes that are not settled, the root included.
        """
        if self._state is not None:
            self.settle(Settlement(_with_keys(path), []))

    def drop(self) -> None:
        """Give up the state, which an error may have left half written."""
        if self._state is not None:
            self._pool.drop(self._state)
        self._state = None

    # -- drafting ------------------------------------------------------------------------------

    def compute(self, step: DraftStep, sampler: Sampler, cancel: CancelFlag) -> Computed | None:
        """Stage the nodes and their unstaged ancestors, and return the candidates of the nodes.

        Returns None where it was cancelled, or where there is no room before more is settled.
        """
        state, nodes = self._own, step.nodes
        rows, positions = self._rows(nodes)
        if not rows:
            return Computed(0, [[] for _ in nodes])
        first = len(self._staged)
        if len(state) + first + len(rows) > state.slots:
            return None
        index = {node: row for row, node in enumerate(rows)}
        parents = [self._parent(node, index, first) for node in rows]
        wanted = sorted({index[node] for node in nodes if node in index})
        tokens = [node.token for node in rows]
        found = self._expand(tokens, parents, wanted, sampler, cancel)
        if found is None:
            return None
        for staged, node in enumerate(rows, first):
            again = node.staged is not None
            self._staged.append(None if again else node)
            if not again:
                node.staged = staged
        self._positions += positions
        of_row = dict(zip(wanted, found.candidates, strict=True))
        return Computed(len(rows), [of_row[index[node]] if node in index else [] for node in nodes])

    def _rows(self, nodes: Sequence[Node]) -> tuple[list[Node], list[int]]:
        """Return the nodes to stage, parents first, and their positions."""
        rows: dict[Node, int] = {}
        for node in nodes:
            above: list[Node] = []
            at: Node | None = node
            while at is not None and at not in rows and (at is node or at.staged is None):
                above.append(at)
                at = at.parent
            position = self._position(at, rows) + len(above)
            if self.has_room(position):
                first = position - len(above) + 1
                rows.update(zip(reversed(above), range(first, position + 1), strict=True))
        return list(rows), list(rows.values())

    def _position(self, node: Node | None, rows: dict[Node, int]) -> int:
        if node is None or node.staged == ROOT:
            return len(self._own) - 1
        return rows[node] if node.staged is None else self._positions[node.staged]

    def _parent(self, node: Node, index: dict[Node, int], first: int) -> int:
        """Return the slot of the parent's keys, present or future."""
        parent = node.parent
        if parent is None:
            return ROOT
        return first + index[parent] if parent.staged is None else parent.staged

    # -- settling ------------------------------------------------------------------------------

    @property
    def crowded(self) -> bool:
        """True where so much is staged that settling is worth its copies."""
        return len(self._staged) >= self._enough

    def settlement(self, path: Sequence[Node]) -> Settlement:
        """Return what settling would commit and keep now; the root must not move meanwhile.

        Args:
            path: committed nodes before the root that are not settled.
        """
        kept = [staged for staged, node in enumerate(self._staged) if node and node.alive]
        return Settlement(_with_keys(path), kept)

    def settle(self, settlement: Settlement) -> None:
        """Commit the nodes that are passed, keep some staged, forget the others."""
        nodes, positions, kept = self._staged, self._positions, settlement.kept
        self._own.settle(
            [node.staged for node in settlement.passed if node.staged is not None], kept
        )
        for node in nodes:
            if node is not None:
                node.staged = None
        self.settled(settlement.passed)
        self._staged = [nodes[staged] for staged in kept]
        self._positions = [positions[staged] for staged in kept]
        for place, node in enumerate(self._staged):
            if node is not None:
                node.staged = place
        self._enough = 2 * len(kept) + MAX_TREE // 2

    def settled(self, path: Sequence[Node]) -> None:
        """Note that the keys of these committed nodes are among those of the committed tokens."""
        for node in path:
            node.staged = ROOT
        if path:
            path[-1].parent = None  # nobody looks that far back any more

    @property
    def _own(self) -> SequenceState:
        if self._state is None:
            raise ValueError("the draft has not begun")
        return self._state


def _with_keys(path: Sequence[Node]) -> list[Node]:
    """Return the leading committed nodes whose keys are staged."""
    return list(takewhile(lambda node: node.staged is not None, path))
