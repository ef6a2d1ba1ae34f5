"""Several drafters as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.backend.round import Budget
from engine.backend.tree import TokenTree, chain
from engine.request import SamplingParams
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.sampler import Sampler

BUDGET = Budget(nodes=8, depth=4, width=4)


@dataclass(slots=True)
class Scripted:
    """Proposes the same chain every time."""

    path: Sequence[int]
    scores: Sequence[float]
    asked: int = 0
    observed: list[Sequence[int]] = field(default_factory=list)
    was_read: list[int] = field(default_factory=list)

    def begin(self, context: DraftContext) -> None:
        del context

    def missing(self, context: DraftContext) -> int:
        return len(context.tokens)

    def read(self, context: DraftContext, most: int) -> None:
        del context
        self.was_read.append(most)

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        raise NotImplementedError

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        self.asked += 1
        return chain(context.tokens[-1], self.path[: budget.depth], self.scores[: budget.depth])

    def observe(self, committed: Sequence[int]) -> None:
        self.observed.append(committed)


def context() -> DraftContext:
    return DraftContext([1, 2], Sampler(SamplingParams()), lambda: False)


def test_trees_are_merged_over_common_beginnings() -> None:
    one = Scripted([5, 6, 7], [-0.5, -1.0, -1.5])
    two = Scripted([5, 8], [-0.2, -0.9])
    both = CombinedDrafter([one, two])
    tree = both.propose(context(), BUDGET)
    assert tree.drafted == 4
    assert tree.scores[tree.children()[0][5]] == -0.2
    assert both.missing(context()) == 4


def test_the_budget_holds_for_the_union() -> None:
    both = CombinedDrafter([Scripted([5, 6, 7], [-0.1] * 3), Scripted([8, 9, 10], [-0.4] * 3)])
    assert both.propose(context(), Budget(4, 4, 4)).drafted == 4


def test_everyone_hears_what_was_committed() -> None:
    drafters = [Scripted([5], [-1]), Scripted([6], [-1])]
    both = CombinedDrafter(drafters)
    both.propose(context(), BUDGET)
    both.observe([5, 9])
    assert [drafter.observed for drafter in drafters] == [[[5, 9]], [[5, 9]]]


def test_a_drafter_that_brings_nothing_rests_and_is_tried_again() -> None:
    useful, useless = Scripted([5], [-0.1]), Scripted([9], [-0.1])
    both = CombinedDrafter([useful, useless])
    both.begin(context())
    for _ in range(200):
        both.propose(context(), BUDGET)
        both.observe([5])
    assert useful.asked == 200
    assert 20 < useless.asked < 100


def test_a_drafter_that_only_repeats_another_rests() -> None:
    cheap, copy = Scripted([5], [-0.1]), Scripted([5], [-0.1])
    both = CombinedDrafter([cheap, copy])
    both.begin(context())
    for _ in range(100):
        both.propose(context(), BUDGET)
        both.observe([5])
    assert cheap.asked == 100
    assert copy.asked < 100
