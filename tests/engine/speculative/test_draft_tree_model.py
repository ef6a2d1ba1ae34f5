"""The speculation against a model that is simple to believe: all paths that were ever drafted."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import exp, inf, log, nan

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.backend.round import Candidates
from engine.backend.tree import ROOT_PARENT, TokenTree
from engine.speculative.draft_tree import DraftPace, DraftStep, DraftTree, Node

FIRST = 0
TOKENS = 5
"""So few that what is drafted, proposed by others and committed meets again and again."""

Path = tuple[int, ...]
"""All tokens from the first on, down to a node."""


@dataclass
class Drafted:
    """What is known of a path that was drafted."""

    score: float
    age: int
    computed: bool = False


@dataclass
class Done:
    """A step that has ended, and the paths that it proposed."""

    seconds: float
    proposed: list[Path]
    useful: bool = False
    wasted: bool = False


@dataclass
class Naive:
    """Keeps everything, and finds every answer by looking at all of it."""

    committed: Path = (FIRST,)
    known: dict[Path, Drafted] = field(default_factory=lambda: {(FIRST,): Drafted(0.0, 0)})
    running: list[Path] = field(default_factory=list)
    done: list[Done] = field(default_factory=list)
    useful: float = 0.0
    wasted: float = 0.0

    def below(self, path: Path) -> bool:
        """Whether it can still come true, or is the root."""
        return path[: len(self.committed)] == self.committed

    @property
    def base(self) -> float:
        return self.known[self.committed].score

    @property
    def waiting(self) -> int:
        """Computed nodes ahead of the root."""
        return sum(
            drafted.computed and self.below(path) and path != self.committed
            for path, drafted in self.known.items()
        )

    def choice(self, pace: DraftPace) -> list[Path]:
        """The next step's nodes."""
        ranked = sorted(
            (
                path
                for path, drafted in self.known.items()
                if self.below(path) and not drafted.computed and path not in self.running
            ),
            key=lambda path: (-self.known[path].score, self.known[path].age),
        )
        if not ranked:
            return []
        least = max(
            self.known[ranked[0]].score + (log(pace.theta) if pace.theta else -inf),
            self.base + (log(pace.floor) if pace.floor else -inf),
        )
        chosen: list[Path] = []
        room = pace.ahead - self.waiting
        for path in ranked[: pace.width]:
            if self.known[path].score < least or (path != self.committed and room <= 0):
                break
            room -= path != self.committed
            chosen.append(path)
        return chosen

    def add(self, parent: Path, token: int, score: float) -> None:
        path = (*parent, token)
        score = min(score, self.known[parent].score)
        old = self.known.setdefault(path, Drafted(score, len(self.known)))
        if not old.computed and path not in self.running:
            old.score = max(old.score, score)

    def end(self, candidates: Sequence[Candidates], seconds: float) -> None:
        nodes, self.running = self.running, []
        done = Done(seconds, [])
        for path in nodes:
            self.known[path].computed = bool(candidates)
        for path, found in zip(nodes, candidates, strict=False):
            if self.below(path):
                for token, weight in found:
                    if weight > -inf:
                        self.add(path, token, self.known[path].score + weight)
                        done.proposed.append((*path, token))
        self.done.append(done)
        self.judge()

    def advance(self, tokens: Sequence[int]) -> bool:
        known = True
        for token in tokens:
            path = (*self.committed, token)
            known &= path in self.known
            self.known.setdefault(path, Drafted(self.base, len(self.known)))
            self.committed = path
        self.judge()
        return known

    def judge(self) -> None:
        """The merit of every step whose fate is decided now."""
        for done in self.done:
            if done.useful or done.wasted:
                continue
            done.useful = any(path == self.committed[: len(path)] for path in done.proposed)
            done.wasted = not done.useful and not any(map(self.below, done.proposed))
            self.useful += done.seconds * done.useful
            self.wasted += done.seconds * done.wasted


def path_of(node: Node) -> Path:
    tokens: list[int] = []
    above: Node | None = node
    while above is not None:
        tokens.append(above.token)
        above = above.parent
    return tuple(reversed(tokens))


def tree_paths(tree: TokenTree) -> list[Path]:
    """Of each node, the tokens below the root."""
    paths: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        paths.append(() if parent == ROOT_PARENT else (*paths[parent], token))
    return paths


WEIGHTS = st.sampled_from([0.0, log(0.9), log(0.5), log(0.5), log(0.25), -40.0, -inf, nan])
FOUND = st.lists(st.tuples(st.integers(0, TOKENS - 1), WEIGHTS), max_size=4)
PACES = st.builds(
    DraftPace,
    width=st.integers(1, 5),
    theta=st.sampled_from([1.0, 0.5, 0.1, 0.0]),
    ahead=st.integers(0, 12),
    floor=st.sampled_from([0.0, 0.0, 0.01, 0.6]),
)


class Drafting(RuleBasedStateMachine):
    """Steps, cancels, grafts and commits in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.speculation = DraftTree(FIRST)
        self.naive = Naive()
        self.useful = self.wasted = 0.0
        self.settled = 0

    @property
    def step(self) -> DraftStep | None:
        return self.speculation.step

    @precondition(lambda self: self.step is None)
    @rule(pace=PACES)
    def begin(self, pace: DraftPace) -> None:
        chosen = self.naive.choice(pace)
        step = self.speculation.begin_step(pace)
        assert (step is not None) == bool(chosen)
        if step is None:
            return
        assert [path_of(node) for node in step.nodes] == chosen
        before = [path_of(node) for node in step.pending]
        assert all(self.naive.committed[: len(path)] == path for path in before)
        assert self.naive.committed not in before
        self.naive.running = chosen
        # A draft can compute them: whatever comes before them is there, or comes with them.
        for node in step.pending + step.nodes:
            assert node.parent is None or node.parent.staged is not None
            node.staged = 0

    @precondition(lambda self: self.step is not None)
    @rule(data=st.data(), seconds=st.sampled_from([0.5, 1.0, 4.0]))
    def end(self, data: st.DataObject, seconds: float) -> None:
        count = len(self.naive.running)
        found = data.draw(st.lists(FOUND, min_size=count, max_size=count))
        self.speculation.end_step(found, seconds)
        self.naive.end(found, seconds)

    @precondition(lambda self: self.step is not None)
    @rule(seconds=st.sampled_from([0.0, 0.5]))
    def cancel(self, seconds: float) -> None:
        assert self.step is not None
        for node in self.step.pending + self.step.nodes:
            node.staged = None
        self.speculation.end_step([], seconds)
        self.naive.end([], seconds)

    @rule(data=st.data(), foreign=st.booleans())
    def graft(self, data: st.DataObject, foreign: bool) -> None:
        nodes: list[tuple[int, int, float]] = []
        for _ in range(data.draw(st.integers(0, 4))):
            weight = data.draw(st.sampled_from([0.0, log(0.9), log(0.5), -3.0]))
            parent = data.draw(st.integers(0, len(nodes)))
            nodes.append((parent, data.draw(st.integers(0, TOKENS - 1)), weight))
        root = self.naive.committed[-1]
        tree = TokenTree.build(root + 1 if foreign else root, nodes)
        self.speculation.graft(tree)
        if foreign:
            return
        for path, score in zip(tree_paths(tree)[1:], tree.scores[1:], strict=True):
            parent_path = self.naive.committed + path[:-1]
            self.naive.add(parent_path, path[-1], self.naive.base + score)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        """What the target takes of the tree, and mostly a token of its own behind it."""
        paths = tree_paths(self.speculation.tree(data.draw(st.integers(0, 9))))
        taken = list(data.draw(st.sampled_from(paths)))
        if data.draw(st.booleans()):
            taken.append(data.draw(st.integers(0, TOKENS - 1)))
        assert self.speculation.advance(taken) == self.naive.advance(taken)

    @precondition(lambda self: self.step is None)
    @rule()
    def settle(self) -> None:
        """Between steps the draft's state takes over what it has of the path."""
        while self.speculation.path and self.speculation.path[0].staged is not None:
            del self.speculation.path[0]
            self.settled += 1

    @rule(pace=PACES)
    def ask(self, pace: DraftPace) -> None:
        """How likely it is that the target comes by any of the next nodes."""
        hopeful = any(map(self.naive.below, self.naive.running))
        nodes = self.naive.running if hopeful else self.naive.choice(pace)
        firsts = [
            path
            for path in nodes
            if self.naive.below(path) and not (path[:-1] in nodes and self.naive.below(path[:-1]))
        ]
        chances = sum(exp(self.naive.known[path].score - self.naive.base) for path in firsts)
        assert self.speculation.promise(pace) == pytest.approx(min(chances, 1.0))

    @invariant()
    def the_root_and_the_path_are_what_was_committed(self) -> None:
        path = [*self.speculation.path, self.speculation.root]
        assert tuple(node.token for node in path) == self.naive.committed[self.settled :]
        assert not any(node.alive for node in self.speculation.path)
        assert self.speculation.root.alive

    @invariant()
    def the_tree_holds_the_best_of_what_is_below_the_root(self) -> None:
        naive = self.naive
        depth = len(naive.committed)
        below = {
            path[depth:]: drafted.score - naive.base
            for path, drafted in naive.known.items()
            if naive.below(path)
        }
        whole = self.speculation.tree(len(below))
        assert whole.tokens[0] == naive.committed[-1]
        assert dict(zip(tree_paths(whole), whole.scores, strict=True)) == pytest.approx(below)
        assert list(whole.scores) == sorted(whole.scores, reverse=True)
        for most in range(len(below)):
            assert self.speculation.tree(most) == whole.best(most)

    @invariant()
    def a_step_is_hopeless_once_none_of_its_nodes_can_come_true(self) -> None:
        if self.step is not None:
            assert self.step.hopeless == (not any(map(self.naive.below, self.naive.running)))

    @invariant()
    def every_second_of_drafting_counts_once_and_at_once(self) -> None:
        merit = self.speculation.take_merit()
        self.useful += merit.useful
        self.wasted += merit.wasted
        assert (self.useful, self.wasted) == (self.naive.useful, self.naive.wasted)


TestDrafting = Drafting.TestCase
TestDrafting.settings = settings(stateful_step_count=40)


@pytest.mark.parametrize("hits", [True, False], ids=["hits", "misses"])
def test_what_cannot_come_true_any_more_is_forgotten(hits: bool) -> None:
    """A long answer's memory is that of its tokens, not of all that was ever drafted."""
    speculation, pace = DraftTree(FIRST), DraftPace(width=4, theta=0.01, ahead=16)
    answer, candidates = 400, 8
    before = drafted_nodes()
    for _ in range(answer):
        for _ in range(3):
            if (step := speculation.begin_step(pace)) is None:
                break
            found = [(token, -0.5 * token) for token in range(candidates)]
            speculation.end_step([found] * len(step.nodes), 0.001)
        speculation.advance([0 if hits else candidates + 1])
    assert drafted_nodes() - before < answer + 16 * candidates + 3 * 256


def drafted_nodes() -> int:
    """All that are in memory."""
    gc.collect()
    return sum(type(each) is Node for each in gc.get_objects())
