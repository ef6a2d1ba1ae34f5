"""The tree that is drafted behind the committed tokens: it grows while its root moves along.

DuoDecoding drafts while the target verifies (arXiv 2503.00784). Its chain after full acceptance,
its several sequences by the theta rule, and drafts for the likeliest rejections are one and the
same here: a tree whose likeliest open nodes are computed first, some of them in one forward of the
draft. Committed tokens move the root. Where they lie in the tree, what is drafted below stays,
without a copy; where they do not, drafting begins anew behind them. No thread, no clock, no model:
the draft lane and the simulator both drive it.

A feature head takes the output of a node's parent, and behind the committed tokens the target's own
features instead. So its nodes are computed after their parents, and once more after each commit;
what was drafted before stays on offer until then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import exp, inf, log

from engine.backend.round import Candidates
from engine.backend.tree import ROOT_PARENT, TokenTree
from engine.model.weights.readable import Floats


@dataclass(frozen=True, slots=True)
class DraftPace:
    """Instructions for the draft worker, given by the controller.

    Attributes:
        width: most nodes of one step.
        theta: a node is computed along with the likeliest one where its chance is at least so
            much of that one's: it would be the next one's turn only after this (the theta rule).
        ahead: most computed nodes that wait behind the committed tokens; the root is none of them.
        floor: nodes that are less likely are not worth a step.
        overlap: whether steps begin while the target verifies.
    """

    width: int = 1
    theta: float = 1.0
    ahead: int = 32
    floor: float = 0.0
    overlap: bool = True


class Node:
    """A drafted token, or a committed one that the draft has not processed yet.

    Attributes:
        token: its id.
        parent: the node before it.
        score: log of its chance, counted from where the answer began; falls along a path.
        weight: log of what the draft gave it behind its parent; None: it has not proposed it.
        step: that has proposed it, if one has.
        children: by token.
        computed: whether its own candidates are known.
        alive: whether it can still come true: below the root, or the root itself.
        staged: where the draft's state has its keys; None before.
        age: its number among all nodes; a node is older than those below it.
        vouched: the score that other drafters give it; -inf: none proposes it.
        output: of a feature head, what the nodes below are computed from: fp32 [hidden].
    """

    __slots__ = (
        "age", "alive", "children", "computed", "output", "parent", "score", "staged", "step",
        "token", "vouched", "weight",
    )  # fmt: skip

    def __init__(
        self, token: int, parent: Node | None, score: float, age: int, step: DraftStep | None = None
    ) -> None:
        self.token, self.parent, self.score, self.age = token, parent, score, age
        self.step = step
        self.weight: float | None = None
        self.children: dict[int, Node] = {}
        self.computed, self.alive = False, True
        self.staged: int | None = None
        self.vouched = -inf
        self.output: Floats | None = None


@dataclass(slots=True, eq=False)
class DraftStep:
    """One forward of the draft.

    Attributes:
        pending: committed nodes that it processes as well, before the others.
        nodes: whose candidates it finds, parents before their children.
        hopes: of its candidates, those that can still come true.
        seconds: it took.
        useful: whether a candidate of it was committed.
        behind_commits: whether its only node is the root.
        late: whether its nodes are open again, since a commit has brought features meanwhile.
    """

    pending: list[Node]
    nodes: list[Node]
    hopes: int = 0
    seconds: float = 0.0
    useful: bool = False
    behind_commits: bool = False
    late: bool = False

    @property
    def hopeless(self) -> bool:
        """True where nothing that the step finds can be of use any more."""
        return self.late or not any(node.alive for node in self.nodes)


@dataclass(slots=True)
class Merit:
    """Seconds of drafting by outcome: a candidate was committed, or none can be any more."""

    useful: float = 0.0
    wasted: float = 0.0


_Entry = tuple[float, int, Node]
"""Of a heap: the negative score, the node's age, the node. So a parent comes before its children,
which are at best as likely."""


_MANY = 256
"""Entries, stale ones among them, from which on it is worth looking for those now and then."""


def _is_stale(entry: _Entry) -> bool:
    return not entry[2].alive or entry[0] != -entry[2].score


@dataclass(slots=True)
class DraftTree:
    """The tree behind the committed tokens.

    Args:
        token: the last committed token.
        of_head: whether a feature head drafts.

    Attributes:
        root: stands for it.
        path: committed nodes before the root, oldest first; who has settled them removes them.
        step: that is being computed.
        merit: since it was last taken away.
    """

    token: int
    of_head: bool = False
    root: Node = field(init=False)
    path: list[Node] = field(default_factory=list)
    step: DraftStep | None = None
    merit: Merit = field(default_factory=Merit)
    _open: list[_Entry] = field(default_factory=list)
    _ages: Iterator[int] = field(default_factory=count)
    _ahead: int = 0
    _full: int = _MANY

    def __post_init__(self) -> None:
        self.root = self._node(self.token, None, 0.0)

    # -- drafting ------------------------------------------------------------------------------

    def begin_step(self, pace: DraftPace) -> DraftStep | None:
        """Begin a step with the likeliest open nodes; None where none is worth it or enough wait.

        Raises:
            ValueError: a step has begun and not ended.
        """
        if self.step is not None:
            raise ValueError("a step is being computed")
        chosen = self._choose(pace, taken=True)
        if not chosen:
            return None
        pending = [node for node in self.path if node.staged is None]
        self.step = DraftStep(pending, chosen, behind_commits=chosen == [self.root])
        return self.step

    def end_step(self, candidates: Sequence[Candidates], seconds: float) -> None:
        """End the step with the candidates of each of its nodes; none: it was cancelled.

        Tokens whose logprob is -inf or NaN are no candidates.

        Raises:
            ValueError: no step has begun, or it has another number of nodes.
        """
        step, self.step = self.step, None
        if step is None:
            raise ValueError("no step has begun")
        step.seconds = seconds
        if step.late:
            candidates = ()
        for node in () if step.late else step.nodes:
            node.computed = bool(candidates)
            if not candidates:
                self._push(node)
        for node, found in zip(step.nodes if candidates else (), candidates, strict=True):
            if node.alive:
                self._ahead += node is not self.root
                if self.of_head:
                    self._forget_below(node, {token for token, _ in found})
                for token, weight in found:
                    if weight > -inf:
                        self._add(node, token, node.score + weight, step, weight)
        if not step.hopes:
            self.merit.wasted += seconds

    def graft(self, tree: TokenTree) -> None:
        """Add the tree that another drafter proposes behind the root; its scores are logprobs."""
        if tree.tokens[0] != self.root.token:
            return
        nodes = [self.root]
        for token, parent, score in zip(
            tree.tokens[1:], tree.parents[1:], tree.scores[1:], strict=True
        ):
            above = nodes[parent]
            own = min(self.root.score + score, above.score)
            self._add(above, token, own, None)
            nodes.append(above.children[token])
            nodes[-1].vouched = max(nodes[-1].vouched, own)

    # -- verifying -----------------------------------------------------------------------------

    def tree(self, most: int) -> TokenTree:
        """Return the `most` likeliest drafted nodes, for the target to verify."""
        root, base = self.root, self.root.score
        tokens, parents, scores = [root.token], [ROOT_PARENT], [0.0]
        weights: list[float | None] = [None]
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
            weights.append(node.weight)
        return TokenTree(tuple(tokens), tuple(parents), tuple(scores), tuple(weights))

    def coming(self, pace: DraftPace) -> list[Node]:
        """Return the nodes of the running step.

        Where none runs, or it is hopeless, return those of the next one.
        """
        step = self.step
        return self._choose(pace) if step is None or step.hopeless else step.nodes

    def promise(self, pace: DraftPace) -> float:
        """Return the probability that a node of the coming step is committed.

        Where a head computes a node once more, what is on offer below it already counts as found.
        """
        nodes = {node for node in self.coming(pace) if node.alive}
        base = self.root.score
        firsts = [node for node in nodes if node.parent not in nodes]
        found = [each for node in firsts for each in node.children.values() if self.of_head]
        chance = sum(exp(node.score - base) for node in firsts)
        return min(max(chance - sum(exp(each.score - base) for each in found), 0.0), 1.0)

    def advance(self, tokens: Sequence[int]) -> bool:
        """Move the root along committed tokens; return whether all of them were in the tree."""
        known = True
        for token in tokens:
            old = self.root
            new = old.children.get(token)
            if new is None:
                known = False
                self._open.clear()  # all of them are beside the token
                new = self._node(token, old, old.score)
            elif new.step is not None and not new.step.useful:
                new.step.useful = True
                self.merit.useful += new.step.seconds
            if new.computed:
                self._ahead -= 1
            self._kill([other for other in old.children.values() if other is not new])
            old.children, old.alive = {token: new}, False
            self._part(new)
            self.path.append(old)
            self.root = new
        if self.of_head:
            self._open_again()
        if len(self._open) > self._full:
            self._open = [entry for entry in self._open if not _is_stale(entry)]
            heapify(self._open)
            self._full = max(_MANY, 2 * len(self._open))
        return known

    def forget_path(self) -> None:
        """Forget the committed nodes before the root: they are read anew as tokens."""
        self.path.clear()
        self.root.parent = None

    def take_merit(self) -> Merit:
        """Return and reset the useful and wasted seconds since the last call."""
        taken, self.merit = self.merit, Merit()
        return taken

    # -- inside --------------------------------------------------------------------------------

    def _choose(self, pace: DraftPace, *, taken: bool = False) -> list[Node]:
        """Return the nodes of a next step; they stay open unless they are taken."""
        opened = self._open
        while opened and _is_stale(opened[0]):
            heappop(opened)
        if not opened:
            return []
        least = -opened[0][0] + log(pace.theta) if pace.theta > 0 else -inf
        least = max(least, self.root.score + log(pace.floor) if pace.floor > 0 else -inf)
        room = pace.ahead - self._ahead
        kept: list[_Entry] = []
        waiting: list[_Entry] = []
        while opened and len(kept) < pace.width and -opened[0][0] >= least:
            if _is_stale(opened[0]):
                heappop(opened)
                continue
            if self.of_head and not self._has_feature(opened[0][2]):
                waiting.append(heappop(opened))
                continue
            ahead = opened[0][2] is not self.root
            if ahead and room <= 0:
                break
            room -= ahead
            kept.append(heappop(opened))
        for entry in waiting if taken else (*kept, *waiting):
            heappush(opened, entry)
        return [entry[2] for entry in kept]

    def _has_feature(self, node: Node) -> bool:
        """Tell whether there is what a head computes the node from."""
        return node is self.root or (node.parent is not None and node.parent.computed)

    def _open_again(self) -> None:
        """Let a head compute all nodes once more: the target's features have come."""
        if self.step is not None:
            self.step.late = True
        nodes = [self.root]
        for node in nodes:  # they become more on the way
            node.computed, node.vouched = False, -inf
            nodes.extend(node.children.values())
        self._ahead = 0
        self._open = [(-node.score, node.age, node) for node in nodes]
        heapify(self._open)

    def _forget_below(self, node: Node, found: set[int]) -> None:
        """Forget what a head offered below a node from features that it has better ones for now."""
        gone = [
            child
            for token, child in node.children.items()
            if token not in found and child.vouched == -inf
        ]
        for child in gone:
            del node.children[child.token]
        self._kill(gone)

    def _node(
        self, token: int, parent: Node | None, score: float, step: DraftStep | None = None
    ) -> Node:
        """A new node; it is open."""
        node = Node(token, parent, score, next(self._ages), step)
        self._push(node)
        return node

    def _push(self, node: Node) -> None:
        heappush(self._open, (-node.score, node.age, node))

    def _add(
        self,
        parent: Node,
        token: int,
        score: float,
        step: DraftStep | None,
        weight: float | None = None,
    ) -> None:
        score = min(score, parent.score)
        present = parent.children.get(token)
        if present is None:
            new = parent.children[token] = self._node(token, parent, score, step)
            new.weight = weight
            self._hope(step, 1)
            return
        if present.step is None:  # it was somebody else's
            present.step, present.weight = step, weight
            self._hope(step, 1)
        elif self.of_head and step is not None:  # found once more
            self._part(present)
            present.step, present.weight = step, weight
            self._hope(step, 1)
            self._move(present, max(score, present.vouched))
            return
        in_step = self.step is not None and present in self.step.nodes
        if score > present.score and not present.computed and not in_step:
            present.score = score
            self._push(present)

    def _move(self, node: Node, score: float) -> None:
        """Change the score of a node, and by as much those below; no score exceeds one above it."""
        moved = [(node, score)]
        for each, new in moved:  # they become more on the way
            by, each.score = new - each.score, new
            if by and not each.computed:
                self._push(each)
            moved += [(child, min(child.score + by, new)) for child in each.children.values()]

    def _kill(self, dying: list[Node]) -> None:
        """Mark nodes and all below them as dead: `_part` for each, inlined for speed.

        There may be hundreds, and the target waits meanwhile.
        """
        current, computed, wasted = self.step, 0, 0.0
        for node in dying:  # they become more on the way
            node.alive = False
            if node.computed:
                computed += 1
            if node.children:
                dying.extend(node.children.values())
                node.children = {}
            if (step := node.step) is not None:
                node.step = None
                step.hopes -= 1
                if not step.hopes and not step.useful and step is not current:
                    wasted += step.seconds
        self._ahead -= computed
        self.merit.wasted += wasted

    def _part(self, node: Node) -> None:
        """Separate a node from the step that has proposed it.

        They drop their references to each other, or everything ever drafted would stay in memory.
        """
        step, node.step = node.step, None
        self._hope(step, -1)

    def _hope(self, step: DraftStep | None, more: int) -> None:
        """Count a candidate of a step that has appeared or is gone."""
        if step is None:
            return
        step.hopes += more
        if not step.hopes and not step.useful and step is not self.step:
            self.merit.wasted += step.seconds
