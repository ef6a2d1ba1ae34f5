"""The exactness harness: speculative decoding under random budgets and trees, against plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.round import Budget, Round
from engine.backend.sequence import SequenceState
from engine.backend.tree import TokenTree
from engine.plan.plan import Expectation
from engine.request import Bias, SamplingParams
from engine.speculative.constraint import Constraint
from engine.speculative.controller import Controller
from engine.speculative.costs import DraftCosts
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.drafter import DraftContext, Drafter
from engine.speculative.loops import plain, serial
from engine.speculative.sampler import Sampler
from engine.speculative.strategies import DraftingStrategy

SAMPLINGS = {
    "greedy": SamplingParams(),
    "greedy with penalties": SamplingParams(repetition_penalty=1.3, frequency_penalty=0.4),
    "sampled": SamplingParams(temperature=0.8, seed=11),
    "sampled hot": SamplingParams(temperature=1.7, seed=2**63 + 5, min_p=0.02),
    "sampled filtered": SamplingParams(
        temperature=0.7,
        seed=3,
        top_k=40,
        top_p=0.9,
        repetition_penalty=1.1,
        presence_penalty=0.3,
        frequency_penalty=0.2,
    ),
}


class RandomController(Controller):
    """Budgets that change at random every round, so that no lucky constant hides a mistake."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(forced=True)
        self._rng = rng

    def next_budget(self, most_depth: int) -> Budget | None:
        if most_depth < 1 or self._rng.random() < 0.1:
            return None
        return Budget(
            nodes=int(self._rng.integers(1, 40)),
            depth=int(self._rng.integers(1, 9)),
            width=int(self._rng.integers(1, 6)),
            floor=float(self._rng.choice([0.0, 0.3])),
        )

    def prune(self, tree: TokenTree) -> TokenTree:
        return tree.best(int(self._rng.integers(0, len(tree) + 1)))


class FixedBudget(Controller):
    """The same budget every round, and all of the tree is verified."""

    def __init__(self, budget: Budget) -> None:
        super().__init__(forced=True)
        self._budget = budget

    def next_budget(self, most_depth: int) -> Budget | None:
        return self._budget if most_depth > 0 else None

    def prune(self, tree: TokenTree) -> TokenTree:
        return tree


def beside(
    expected: Expectation | None = None,
    costs: DraftCosts | None = None,
    *,
    ahead: bool = False,
    forced: bool = False,
) -> Controller:
    """A controller of a draft that works beside the target.

    `ahead`: it always does, never in turns.
    """
    ways = [DraftingStrategy.PARALLEL, *([] if ahead else [DraftingStrategy.SERIAL])]
    return Controller(expected, costs, ways, forced=forced or ahead)


@dataclass(slots=True)
class OracleDrafter:
    """Random trees around the text that plain decoding gives: right, wrong and half right."""

    answer: Sequence[int]
    prompt_length: int
    vocab: int
    rng: np.random.Generator
    shapes: list[int] = field(default_factory=list)
    costs: DraftCosts | None = None

    def begin(self, context: DraftContext) -> None:
        del context

    def missing(self, context: DraftContext) -> int:
        del context
        return 0

    def read(self, context: DraftContext, most: int) -> None:
        raise NotImplementedError

    def observe(self, committed: Sequence[int]) -> None:
        del committed

    def at_once(self, context: DraftContext, most: int) -> TokenTree:
        del most
        return TokenTree.root(context.tokens[-1])

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        written = len(context.tokens) - self.prompt_length
        ahead = list(self.answer[written : written + budget.depth])
        # Past the end of the answer the draft goes on all the same.
        while len(ahead) < budget.depth:
            ahead.append(int(self.rng.integers(0, self.vocab)))
        nodes: list[tuple[int, int, float]] = []
        on_path = 0
        for token in ahead:
            for _ in range(int(self.rng.integers(0, 3))):
                parent = int(self.rng.integers(0, len(nodes) + 1))
                nodes.append((parent, int(self.rng.integers(0, self.vocab)), -self.rng.random()))
            if on_path is not None and self.rng.random() < 0.85:
                nodes.append((on_path, int(token), -self.rng.random()))
                on_path = len(nodes)
        self.shapes.append(len(nodes))
        return TokenTree.build(context.tokens[-1], nodes, most=min(budget.nodes, 50))


@dataclass(frozen=True, slots=True)
class Run:
    """What a loop wrote, and its rounds."""

    tokens: list[int]
    rounds: list[Round]
    state: SequenceState


def decode(
    target: Decoder,
    prompt: Sequence[int],
    sampling: SamplingParams,
    *,
    drafter: Drafter | None = None,
    controller: Controller | None = None,
    state: SequenceState | None = None,
    max_tokens: int | None = 48,
    stop_ids: Sequence[int] = (),
    context: int = 512,
    constraint: Constraint | None = None,
    native: bool | None = None,
    bias: Bias = (),
) -> Run:
    """Decode with one loop, from a fresh state unless one is given."""
    decoding = Decoding(
        target,
        state or target.new_state(context),
        list(prompt),
        Sampler(sampling, len(prompt), constraint=constraint, native=native, bias=bias),
        stop_ids=stop_ids,
        max_tokens=max_tokens,
    )
    for _ in decoding.prefill():
        pass
    if drafter is None:
        rounds = list(plain(decoding))
    else:
        controller = controller or Controller(forced=True)
        controller.begin()
        rounds = list(serial(decoding, drafter, controller))
    written = decoding.tokens[len(prompt) :]
    assert written == [token for done in rounds for token in done.tokens]
    assert list(decoding.state.tokens) == decoding.tokens[:-1]
    return Run(written, rounds, decoding.state)
