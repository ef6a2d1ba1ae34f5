"""Drafting in one call on a device against one forward per level, and where a tree has to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from full_models import RandomWeights
from head_models import random_features

from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.round import Budget, DraftRequest
from engine.backend.sequence import SequenceState
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

CONTEXT = 330
SAMPLINGS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.8, seed=2**63 + 17),
}
GREEDY = Sampler(SamplingParams()).ranking


@dataclass
class Twins:
    """The same draft twice, with the same past: in one call, and level by level.

    Attributes:
        tolerance: of scores, and of logits behind the tree.
    """

    config: ModelConfig
    model: Decoder
    tolerance: float = 2e-3

    def __post_init__(self) -> None:
        self.states = [self.model.new_state(CONTEXT) for _ in range(2)]
        self.skipped = 0 if self.config.fusion is None else 1
        self.features: Floats | None = None
        if self.config.fusion is not None:
            self.features = random_features(self.config, CONTEXT)

    def draft(self, tokens: list[int], sampling: SamplingParams, budget: Budget) -> Any:
        """Both trees, as (tokens, parents, scores, staged tokens, their parents)."""
        one, many = self.states
        pending = tokens[self.skipped + len(one) :]
        given = None
        if self.features is not None:
            given = self.features[len(one) : len(one) + len(pending)]
        sampler = Sampler(sampling)
        drafted = self.model.draft(one, DraftRequest(pending, sampler.ranking, budget, given))
        many.discard()
        grown = self.model.grow(many, DraftRequest(pending, sampler.ranking, budget, given))
        return (
            (drafted.tokens, drafted.parents, drafted.scores, one),
            (grown.tokens, grown.parents, grown.scores, many),
        )

    def same(self, one: Any, many: Any) -> None:
        assert one[0] == many[0]
        assert one[1] == many[1]
        assert one[2] == pytest.approx(many[2], abs=self.tolerance)
        states: list[SequenceState] = [one[3], many[3]]
        assert list(states[0].staged) == list(states[1].staged)
        assert list(states[0].parents) == list(states[1].parents)
        if self.features is None:  # a head's staged keys are never looked at again
            behind = [len(state.staged) - 1 for state in states]
            if states[0].slots - len(states[0]) - len(states[0].staged) < 1:
                return
            logits = []
            for state, parent in zip(states, behind, strict=True):
                logits.append(self.model.forward(state, [5], [parent]).logits.copy())
                state._staged.pop()
                state._parents.pop()
            assert np.allclose(*logits, atol=self.tolerance)

    def run(self, sampling: SamplingParams, counts: list[int], first: int = 220) -> None:
        """Draft behind `first` tokens, then behind so many more each time, up to a full context."""
        rng = np.random.default_rng(7)
        tokens = rng.integers(3, 323, first).tolist()
        fixed, deepest = Budget(nodes=12, depth=4, width=3), 0
        while len(tokens) - self.skipped <= CONTEXT:
            budget = fixed if rng.random() < 0.6 else budgets(rng)
            one, many = self.draft(tokens, sampling, budget)
            self.same(one, many)
            deepest = max(deepest, len(set(one[1])))
            for state in self.states:
                state.discard()
            tokens += rng.integers(3, 323, int(rng.choice(counts))).tolist()
        assert deepest > 3, "hardly a tree"


class BrokenWeights(RandomWeights):
    """Weights of a model whose logits are no numbers."""

    def float32(self, name: str) -> Floats:
        found = RandomWeights.float32(self, name)
        return np.full_like(found, np.nan) if name == "model.norm.weight" else found


def budgets(rng: np.random.Generator) -> Budget:
    return Budget(
        nodes=int(rng.integers(1, 40)),
        depth=int(rng.integers(1, 6)),
        width=int(rng.integers(1, 6)),
        floor=float(rng.choice([0.0, 0.0, 0.2])),
    )


def depths(parents: tuple[int, ...]) -> list[int]:
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def check_a_full_cache(model: Decoder) -> None:
    """A full cache ends the tree."""
    state = model.new_state(10)
    room = Budget(nodes=500, depth=16, width=5)
    tree = model.draft(state, DraftRequest([5] * 10, GREEDY, room))
    assert len(state.staged) == MAX_TREE // 5 * 5
    assert max(depths(tree.parents)) <= MAX_TREE // 5 + 1


def check_floors(model: Decoder) -> None:
    """Levels below the floor do not count."""
    deep = Budget(nodes=100, depth=6, width=2, floor=0.0)
    flat = Budget(nodes=100, depth=6, width=2, floor=0.9)
    state = model.new_state(64)
    assert max(depths(model.draft(state, DraftRequest([5, 6], GREEDY, deep)).parents)) == 6
    state = model.new_state(64)
    tree = model.draft(state, DraftRequest([5, 6], GREEDY, flat))
    assert max(depths(tree.parents)) == 1
    assert list(state.staged) == []


def check_broken(model: Decoder) -> None:
    """Logits that are no numbers draft nothing."""
    state = model.new_state(64)
    tree = model.draft(state, DraftRequest([5, 6], GREEDY, Budget(9, 3, 3)))
    assert tree.tokens == (6,)
    assert list(state.staged) == []
