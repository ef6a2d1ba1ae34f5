"""What is drafted behind the committed tokens: it grows step by step, and its root moves along.

DuoDecoding drafts while the target verifies (arXiv 2503.00784). Its chain after full acceptance,
its several sequences by the theta rule, and drafts for the likeliest rejections are one and the
same here: a tree whose likeliest open nodes are computed first, some of them in one forward of the
draft. Committed tokens move the root. Where they lie in the tree, what is drafted below stays,
without a copy; where they do not, drafting begins anew behind them. No thread, no clock, no model:
the draft lane and the simulator both drive it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import exp, inf, log

from engine.decode.tree import ROOT_PARENT, TokenTree

Candidates = Sequence[tuple[int, float]]
"""Tokens that may follow a node with the logs of their chances, the best first."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How the draft lane goes on; the controller says so.

    Attributes:
        width: most nodes of one step.
        theta: a node is computed along with the likeliest one where its chance is at least so
            much of that one's: it would be the next one's turn only after this (the theta rule).
        ahead: most computed nodes that wait behind the committed tokens.
        floor: nodes that are less likely are not worth a step.
        overlap: whether steps begin while the target verifies.
    """

    width: int = 1
    theta: float = 1.0
    ahead: int = 32
    floor: float = 0.0
    overlap: bool = True


class Node:
    """A drafted token, or a committed one that the draft has still to see.

    Attributes:
        token: its id.
        parent: the node before it.
        score: log of its chance, counted from where the answer began; falls along a path.
        step: that has proposed it, if one has.
        children: by token.
        computed: whether its own candidates are known.
        alive: whether it can still come true: below the root, or the root itself.
        staged: where the draft's state has its keys; None before.
    """

    __slots__ = ("alive", "children", "computed", "parent", "score", "staged", "step", "token")

    def __init__(
        self, token: int, parent: Node | None, score: float, step: DraftStep | None = None
    ) -> None:
        self.token, self.parent, self.score, self.step = token, parent, score, step
        self.children: dict[int, Node] = {}
        self.computed, self.alive = False, True
        self.staged: int | None = None


@dataclass(slots=True, eq=False)
class DraftStep:
    """One forward of the draft.

    Attributes:
        pending: committed nodes that it processes as well, before the others.
        nodes: whose candidates it finds, parents before their children.
        hopes: of its candidates, those that can still come true.
        seconds: it took.
        useful: whether a candidate of it was committed.
    """

    pending: list[Node]
    nodes: list[Node]
    hopes: int = 0
    seconds: float = 0.0
    useful: bool = False

    @property
    def hopeless(self) -> bool:
        """Whether nothing that it computes can come true any more."""
        return not any(node.alive for node in self.nodes)


@dataclass(slots=True)
class Merit:
    """Seconds of drafting whose fate is known: something was committed, or nothing will be."""

    useful: float = 0.0
    wasted: float = 0.0


_Entry = tuple[float, int, Node]
"""Of a heap: the negative score, a number that nothing else has, the node."""


def _is_stale(entry: _Entry) -> bool:
    return not entry[2].alive or entry[0] != -entry[2].score


@dataclass(slots=True)
class Speculation:
    """The tree behind the committed tokens.

    Args:
        token: the last committed token.

    Attributes:
        root: stands for it.
        path: committed nodes before the root, oldest first; who has settled them removes them.
        step: that is being computed.
        merit: since it was last taken away.
    """

    token: int
    root: Node = field(init=False)
    path: list[Node] = field(default_factory=list)
    step: DraftStep | None = None
    merit: Merit = field(default_factory=Merit)
    _open: list[_Entry] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)
    _ahead: int = 0

    def __post_init__(self) -> None:
        self.root = Node(self.token, None, 0.0)
        self._push(self.root)

    # -- drafting ------------------------------------------------------------------------------

    def begin_step(self, pace: Pace) -> DraftStep | None:
        """Take the likeliest nodes for a step; None where none is worth it, or enough wait."""
        chosen = self._choose(pace)
        if not chosen:
            return None
        for _ in chosen:
            heappop(self._open)
        pending = [node for node in self.path if node.staged is None]
        self.step = DraftStep(pending, chosen)
        return self.step

    def end_step(self, candidates: Sequence[Candidates], seconds: float) -> None:
        """The step's candidates are known, those of each of its nodes; none: it was cancelled."""
        step, self.step = self.step, None
        if step is None:
            raise ValueError("no step has begun")
        step.seconds = seconds
        if not candidates:
            for node in step.nodes:
                self._push(node)
        for node, found in zip(step.nodes, candidates, strict=False):
            node.computed = True
            if node.alive:
                self._ahead += node is not self.root
                for token, weight in found:
                    self._add(node, token, node.score + weight, step)
        if not step.hopes:
            self.merit.wasted += seconds

    def graft(self, tree: TokenTree) -> None:
        """Add what somebody else proposes behind the root; scores are logs of chances."""
        if tree.tokens[0] != self.root.token:
            return
        nodes = [self.root]
        for token, parent, score in zip(
            tree.tokens[1:], tree.parents[1:], tree.scores[1:], strict=True
        ):
            above = nodes[parent]
            self._add(above, token, min(self.root.score + score, above.score), None)
            nodes.append(above.children[token])

    # -- verifying -----------------------------------------------------------------------------

    def tree(self, most: int) -> TokenTree:
        """The `most` likeliest drafted nodes, for the target to verify."""
        root, base = self.root, self.root.score
        tokens, parents, scores = [root.token], [ROOT_PARENT], [0.0]
        waiting = [
            (-node.score, index, node, 0) for index, node in enumerate(root.children.values())
        ]
        heapify(waiting)
        order = count(len(waiting))
        while waiting and len(tokens) <= most:
            _, _, node, parent = heappop(waiting)
            for child in node.children.values():
                heappush(waiting, (-child.score, next(order), child, len(tokens)))
            tokens.append(node.token)
            parents.append(parent)
            scores.append(node.score - base)
        return TokenTree(tuple(tokens), tuple(parents), tuple(scores))

    def promise(self, pace: Pace) -> float:
        """The chance that the next step's candidates matter: that one of its nodes comes true."""
        nodes = self.step.nodes if self.step is not None else self._choose(pace)
        return sum(exp(node.score - self.root.score) for node in nodes if node.alive)

    def advance(self, tokens: Sequence[int]) -> bool:
        """Move the root along committed tokens; whether all of them were in the tree."""
        known = True
        for token in tokens:
            old = self.root
            new = old.children.get(token)
            if new is None:
                known = False
                new = Node(token, old, old.score)
                self._push(new)
            elif new.step is not None and not new.step.useful:
                new.step.useful = True
                self.merit.useful += new.step.seconds
            if new.computed:
                self._ahead -= 1
            for other in old.children.values():
                if other is not new:
                    self._kill(other)
            old.children, old.alive = {token: new}, False
            self._hope(new.step, -1)
            self.path.append(old)
            self.root = new
        return known

    def take_merit(self) -> Merit:
        """What became of drafting since the last time."""
        taken, self.merit = self.merit, Merit()
        return taken

    # -- inside --------------------------------------------------------------------------------

    def _choose(self, pace: Pace) -> list[Node]:
        """The nodes of a next step, still open."""
        opened = self._open
        while opened and _is_stale(opened[0]):
            heappop(opened)
        if not opened or (self._ahead >= pace.ahead and opened[0][2] is not self.root):
            return []
        least = -opened[0][0] + log(pace.theta) if pace.theta > 0 else -inf
        least = max(least, self.root.score + log(pace.floor) if pace.floor > 0 else -inf)
        chosen: list[Node] = []
        kept: list[_Entry] = []
        while opened and len(chosen) < pace.width and -opened[0][0] >= least:
            entry = heappop(opened)
            if not _is_stale(entry):
                kept.append(entry)
                chosen.append(entry[2])
        for entry in kept:
            heappush(opened, entry)
        return chosen

    def _push(self, node: Node) -> None:
        heappush(self._open, (-node.score, next(self._order), node))

    def _add(self, parent: Node, token: int, score: float, step: DraftStep | None) -> None:
        score = min(score, parent.score)
        present = parent.children.get(token)
        if present is None:
            parent.children[token] = node = Node(token, parent, score, step)
            self._push(node)
            self._hope(step, 1)
            return
        if present.step is None:  # it was somebody else's
            present.step = step
            self._hope(step, 1)
        in_step = self.step is not None and present in self.step.nodes
        if score > present.score and not present.computed and not in_step:
            present.score = score
            self._push(present)

    def _kill(self, top: Node) -> None:
        """A node and all below it cannot come true any more."""
        dying = [top]
        while dying:
            node = dying.pop()
            node.alive = False
            self._ahead -= node.computed
            self._hope(node.step, -1)
            dying.extend(node.children.values())

    def _hope(self, step: DraftStep | None, more: int) -> None:
        """A candidate of a step has appeared, or is gone."""
        if step is None:
            return
        step.hopes += more
        if not step.hopes and not step.useful and step is not self.step:
            self.merit.wasted += step.seconds
