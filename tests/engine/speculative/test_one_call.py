"""A tree drafted in one native call is the one drafted level by level, and leaves the same keys."""

from __future__ import annotations

import numpy as np
import pytest

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.native.workspace import PREFILL_ROWS
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget, DraftRequest
from engine.backend.tree import TokenTree
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

CONTEXT = 200
SAMPLINGS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.8, seed=2**63 + 17),
}


class LevelByLevel(Decoder):
    """The same segments without the one call."""

    @property
    def drafts_trees(self) -> bool:
        return False


class Twins:
    """Two drafters with the same model and the same past, one call here and many there."""

    def __init__(self, model: Decoder) -> None:
        apart = LevelByLevel(model.config, model.segments)
        self.models = model, apart
        self.drafters = [
            StandaloneDrafter(twin, PrefixCache(twin, CONTEXT, 1 << 28)) for twin in (model, apart)
        ]

    def begin(self, context: DraftContext) -> None:
        for drafter in self.drafters:
            drafter.begin(context)
            drafter.read(context, len(context.tokens))

    def propose(self, context: DraftContext, budget: Budget) -> tuple[TokenTree, TokenTree]:
        one, many = (drafter.propose(context, budget) for drafter in self.drafters)
        return one, many

    def observe(self, committed: list[int]) -> None:
        for drafter in self.drafters:
            drafter.observe(committed)

    def assert_same_states(self) -> None:
        """Same tokens, same staged nodes, same keys and values: the same logits behind them."""
        one, many = (drafter._state for drafter in self.drafters)
        assert one is not None
        assert many is not None
        assert list(one.tokens) == list(many.tokens)
        assert list(one.staged) == list(many.staged)
        assert list(one.parents) == list(many.parents)
        probes = [len(one.staged) - 1, -1] if one.staged else [-1, -1]
        logits = [
            model.forward(state, [5, 6], probes).logits.copy()
            for model, state in zip(self.models, (one, many), strict=True)
        ]
        assert np.array_equal(*logits)
        for state in (one, many):
            del state._staged[-2:], state._parents[-2:]


def assert_same_trees(one: TokenTree, many: TokenTree) -> None:
    assert one.tokens == many.tokens
    assert one.parents == many.parents
    assert one.scores == pytest.approx(many.scores, abs=2e-5)


@pytest.mark.release(keep=2, reason="every format")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("fmt", [Format.Q4, Format.Q8], ids=lambda fmt: fmt.name)
def test_one_call_is_level_by_level(
    fmt: Format,
    sampling: SamplingParams,
    native: dict[Format, tuple[Decoder, Decoder]],
) -> None:
    for model in native[fmt]:
        assert_one_call_is_level_by_level(model, sampling)


def test_one_call_is_level_by_level_with_every_feature(featured: dict[str, Decoder]) -> None:
    for model in featured.values():
        assert_one_call_is_level_by_level(model, SAMPLINGS["sampled"])


def assert_one_call_is_level_by_level(model: Decoder, sampling: SamplingParams) -> None:
    assert model.drafts_trees
    rng = np.random.default_rng(7)
    twins = Twins(model)
    # Long enough to draft across a border between chunks of 64 keys, and up to a full context.
    tokens = rng.integers(3, 320, 50).tolist()
    context = DraftContext(tokens, Sampler(sampling), lambda: False)
    twins.begin(context)
    while len(tokens) < CONTEXT + 3:
        budget = Budget(
            nodes=int(rng.integers(1, 40)),
            depth=int(rng.integers(1, 8)),
            width=int(rng.integers(1, 6)),
            floor=float(rng.choice([0.0, 0.2])),
        )
        one, many = twins.propose(context, budget)
        assert_same_trees(one, many)
        twins.assert_same_states()
        committed = random_path(one, rng)
        twins.observe(committed)
        tokens += committed
    assert one.drafted == 0, "past its context it proposes nothing"


def random_path(tree: TokenTree, rng: np.random.Generator) -> list[int]:
    """A path down the tree and a token of its own."""
    node, path = 0, []
    while (below := tree.children()[node]) and rng.random() < 0.8:
        path.append(int(rng.choice(list(below))))
        node = below[path[-1]]
    return [*path, int(rng.integers(3, 320))]


def test_a_stop_during_a_long_catch_up(native: dict[Format, tuple[Decoder, Decoder]]) -> None:
    draft = native[Format.Q8][1]
    tokens = list(range(3, 190))
    drafter = StandaloneDrafter(draft, PrefixCache(draft, CONTEXT, 1 << 28))
    stopped = DraftContext(tokens, Sampler(SamplingParams()), lambda: True)
    drafter.begin(stopped)
    drafter.read(stopped, len(tokens))
    assert drafter.propose(stopped, Budget(9, 3, 3)).drafted == 0
    going = DraftContext(tokens, Sampler(SamplingParams()), lambda: False)
    assert drafter.propose(going, Budget(9, 3, 3)).drafted == 9


def test_a_stop_leaves_the_root_alone(native: dict[Format, tuple[Decoder, Decoder]]) -> None:
    """Where the draft itself looks at the user's stop; afterwards it drafts as if never stopped."""
    draft, stop = native[Format.Q8][1], CancelFlag()
    one, other = (StandaloneDrafter(draft, PrefixCache(draft, CONTEXT, 1 << 28)) for _ in range(2))
    context = DraftContext([5, 6, 7], Sampler(SamplingParams()), stop)
    for drafter in (one, other):
        drafter.begin(context)
        drafter.read(context, len(context.tokens))
    stop.set()
    assert one.propose(context, Budget(9, 3, 3)) == TokenTree.root(7)
    stop.clear()
    assert one.propose(context, Budget(9, 3, 3)) == other.propose(context, Budget(9, 3, 3))


def test_no_clock_cuts_a_tree(native: dict[Format, tuple[Decoder, Decoder]]) -> None:
    """However long it takes: trees would depend on what else the processor does."""
    draft, levels = native[Format.Q8][1], 4000
    request = DraftRequest([5], Sampler(SamplingParams()).ranking, Budget(levels, levels, 1))
    assert draft.draft(draft.new_state(levels), request).drafted == levels


@pytest.mark.parametrize(("slots", "levels"), [(7, 200), (PREFILL_ROWS + 9, PREFILL_ROWS + 3)])
def test_a_draft_ends_where_its_memory_does(
    native: dict[Format, tuple[Decoder, Decoder]], slots: int, levels: int
) -> None:
    """In one call and level by level, and not before, however many nodes are staged."""
    draft = native[Format.Q8][1]
    request = DraftRequest([5], Sampler(SamplingParams()).ranking, Budget(levels, levels, 1))
    apart = LevelByLevel(draft.config, draft.segments)
    one = draft.draft(state := draft.new_state(slots), request)
    assert_same_trees(one, apart.draft(apart.new_state(slots), request))
    assert one.drafted == min(state.slots, levels)
