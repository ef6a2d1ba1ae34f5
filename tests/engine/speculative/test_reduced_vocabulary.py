"""A draft with few output rows drafts as one that has them all and may not use the others."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from full_models import RandomWeights
from head_models import HEADS, HeadWeights, random_features, small_target
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.ranking import best_ranked, rank
from engine.backend.round import Budget, DraftRequest
from engine.backend.sequence import ROOT
from engine.backend.tree import TokenTree
from engine.model.config import ModelConfig
from engine.model.tensors import HEAD, HEAD_IDS
from engine.model.weights.readable import Floats, Weights
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

ROWS = 100
TOKENS = np.random.default_rng(3).integers(3, 320, 70).tolist()
SAMPLERS = {
    "greedy": Sampler(SamplingParams()),
    "sampled": Sampler(SamplingParams(temperature=0.8, seed=17)),
    "noise of its own": Sampler(SamplingParams(temperature=0.8, seed=17), share_noise=False),
}
BUDGETS = {"chain": Budget(4, 4, 1), "tree": Budget(40, 4, 4)}


@dataclass(frozen=True, slots=True)
class FewRows:
    """Another model's weights with some of its output rows."""

    whole: Weights
    ids: NDArray[np.int64]

    def float32(self, name: str) -> Floats:
        if name == HEAD_IDS:
            return self.ids.astype(np.float32)
        return self.whole.float32(name)[self.ids] if name == HEAD else self.whole.float32(name)


class Masked(Decoder):
    """A model with all rows, of which most may not be used; it drafts by forwards."""

    def __init__(self, whole: Decoder, ids: NDArray[np.int64]) -> None:
        super().__init__(whole.config, whole.segments)
        self._kept = ids

    @property
    def drafts_trees(self) -> bool:
        return False

    @property
    def expands_trees(self) -> bool:
        return False

    def over_vocabulary(self, logits: Floats) -> Floats:
        masked = np.full_like(logits, -np.inf)
        masked[:, self._kept] = logits[:, self._kept]
        return masked


def pair(config: ModelConfig, weights: Weights) -> tuple[Decoder, Masked]:
    """A model with `ROWS` rows, and the same with all."""
    ids = np.sort(np.random.default_rng(1).choice(config.vocab_size, ROWS, replace=False))
    backend = NativeBackend(Format.Q8)
    few = Decoder.build(replace(config, rows=ROWS), FewRows(weights, ids), backend)
    return few, Masked(Decoder.build(replace(config, rows=None), weights, backend), ids)


@pytest.fixture(scope="module")
def models() -> tuple[Decoder, Masked]:
    config = small_target(2)
    return pair(config, RandomWeights(config))


def tree_of(model: Decoder, sampler: Sampler, budget: Budget) -> TokenTree:
    context = DraftContext(TOKENS, sampler, lambda: False)
    drafter = StandaloneDrafter(model, PrefixCache(model, 200, 1 << 28))
    drafter.begin(context)
    drafter.read(context, len(context.tokens))
    return drafter.propose(context, budget)


def assert_same(few: TokenTree, masked: TokenTree, ids: NDArray[np.int64] | None) -> None:
    assert few.drafted > 3
    assert (few.tokens, few.parents) == (masked.tokens, masked.parents)
    assert few.scores == pytest.approx(masked.scores, abs=2e-4)
    assert ids is not None
    assert set(few.tokens[1:]) <= set(ids.tolist())


@pytest.mark.parametrize("budget", BUDGETS.values(), ids=BUDGETS)
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_a_model_of_few_rows_in_one_call(
    models: tuple[Decoder, Masked],
    sampler: Sampler,
    budget: Budget,
) -> None:
    few, masked = models
    assert few.drafts_trees
    assert_same(tree_of(few, sampler, budget), tree_of(masked, sampler, budget), few.ids)


@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_a_model_of_few_rows_in_the_draft_lane(
    models: tuple[Decoder, Masked], sampler: Sampler
) -> None:
    few, masked = models
    tokens, parents, wanted = TOKENS[:5], [ROOT, 0, 0, 2, ROOT], [0, 3, 4]
    state, other = few.new_state(200), masked.new_state(200)
    found = few.expand(state, tokens, parents, wanted, sampler.ranking, 8)
    logits = masked.forward(other, tokens, parents, logit_rows=wanted).logits
    assert found is not None
    for place, depth in enumerate((1, 3, 1)):
        weights = rank(masked.over_vocabulary(logits[place : place + 1]), depth, sampler.ranking)
        right, own = best_ranked(weights[0], 8), found.candidates[place]
        assert [token for token, _ in own] == [token for token, _ in right]
        assert [w for _, w in own] == pytest.approx([w for _, w in right], abs=2e-4)


@pytest.mark.parametrize("kind", ["dgf 1", "linear with bias", "eagle3"])
@pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS)
def test_a_head_of_few_rows(kind: str, sampler: Sampler) -> None:
    config = HEADS[kind]
    assert config.fusion is not None
    config = replace(config, fusion=replace(config.fusion, own_head=True))
    few, masked = pair(config, HeadWeights(config))
    features = random_features(config, len(TOKENS) - 1)
    trees = [head_tree(model, features, sampler, BUDGETS["tree"]) for model in (few, masked)]
    assert_same(trees[0], trees[1], few.ids)


def head_tree(model: Decoder, features: Floats, sampler: Sampler, budget: Budget) -> TokenTree:
    """What is drafted behind the tokens from the second on."""
    state, pending = model.new_state(200), TOKENS[1:]
    return model.draft(state, DraftRequest(pending, sampler.ranking, budget, features))
