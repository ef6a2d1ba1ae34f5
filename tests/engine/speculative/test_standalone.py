"""A stand-alone draft: its tree, its state, its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.sampler import Sampler

BUDGET = Budget(nodes=20, depth=4, width=3)
PROMPT = [1, *range(20, 60)]


def context(tokens: list[int], params: SamplingParams | None = None) -> DraftContext:
    return DraftContext(tokens, Sampler(params or SamplingParams()), lambda: False)


def begun(model: Decoder, tokens: list[int], limit: int = 256) -> StandaloneDrafter:
    drafter = StandaloneDrafter(model, PrefixCache(model, limit, 1 << 28))
    drafter.begin(context(tokens))
    drafter.read(context(tokens), len(tokens))
    return drafter


def greedy(model: Decoder, tokens: list[int], count: int) -> list[int]:
    written = list(tokens)
    for _ in range(count):
        logits = model.forward(model.new_state(256), written, logit_rows=[len(written) - 1]).logits
        written.append(int(logits[0].argmax()))
    return written[len(tokens) :]


def test_the_greedy_continuation_is_in_the_tree_with_its_probability(tiny: Decoder) -> None:
    tree = begun(tiny, PROMPT).propose(context(PROMPT), BUDGET)
    expected = greedy(tiny, PROMPT, 1)[0]
    logits = tiny.forward(tiny.new_state(256), PROMPT, logit_rows=[len(PROMPT) - 1]).logits[0]
    node = tree.children()[0][expected]
    exact = logits[expected] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
    assert tree.scores[node] == np.float32(tree.scores[node])
    np.testing.assert_allclose(tree.scores[node], exact, rtol=1e-4)


def test_a_width_of_one_is_the_greedy_chain(tiny: Decoder) -> None:
    budget = replace(BUDGET, width=1)
    tree = begun(tiny, PROMPT).propose(context(PROMPT), budget)
    assert list(tree.tokens[1:]) == greedy(tiny, PROMPT, 4)
    assert tree.depths == (0, 1, 2, 3, 4)


def test_the_budget_holds(tiny: Decoder) -> None:
    drafter = begun(tiny, PROMPT)
    for nodes, depth, width in ((1, 1, 1), (5, 3, 2), (40, 2, 6), (7, 9, 3)):
        tree = drafter.propose(context(PROMPT), Budget(nodes, depth, width))
        assert 1 <= tree.drafted <= nodes
        assert max(tree.depths) <= depth
        assert max(len(children) for children in tree.children()) <= width
    assert drafter.propose(context(PROMPT), Budget(4, 0, 2)).drafted == 0


def test_a_hopeless_level_is_not_drafted(tiny: Decoder) -> None:
    tree = begun(tiny, PROMPT).propose(context(PROMPT), replace(BUDGET, floor=0.999999))
    assert max(tree.depths) == 1


def test_whatever_was_accepted_the_next_draft_is_that_of_a_fresh_state(tiny: Decoder) -> None:
    rng = np.random.default_rng(2)
    drafter, tokens = begun(tiny, PROMPT), list(PROMPT)
    for _ in range(8):
        tree = drafter.propose(context(tokens), BUDGET)
        fresh = begun(tiny, tokens).propose(context(tokens), BUDGET)
        assert tree == fresh
        node, committed = 0, []
        while (below := tree.children()[node]) and rng.random() < 0.7:
            token = int(rng.choice(list(below)))
            committed.append(token)
            node = below[token]
        committed.append(int(rng.integers(3, 320)))
        drafter.observe(committed)
        tokens += committed


def test_shared_noise_drafts_the_targets_own_draws(tiny: Decoder) -> None:
    params = SamplingParams(temperature=0.9, seed=5)
    drafter, sampler = begun(tiny, PROMPT), Sampler(params)
    tree = drafter.propose(context(PROMPT, params), replace(BUDGET, width=1))
    written = list(PROMPT)
    for _ in range(4):
        rows = tiny.forward(tiny.new_state(256), written, logit_rows=[len(written) - 1]).logits
        written.append(sampler.draw(rows[0], written))
    assert list(tree.tokens[1:]) == written[len(PROMPT) :]


def test_past_its_own_context_it_proposes_nothing(tiny: Decoder) -> None:
    drafter = begun(tiny, PROMPT, limit=len(PROMPT) + 1)
    assert max(drafter.propose(context(PROMPT), BUDGET).depths) == 2
    drafter.observe([5, 6])
    longer = [*PROMPT, 5, 6]
    assert drafter.propose(context(longer), BUDGET).drafted == 0
    late = begun(tiny, longer, limit=len(PROMPT))
    assert late.propose(context(longer), BUDGET).drafted == 0


def test_a_stop_ends_the_catching_up(tiny: Decoder) -> None:
    drafter = StandaloneDrafter(tiny, PrefixCache(tiny, 600, 1 << 28))
    asked: list[int] = []

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 2

    tokens = [1, *np.random.default_rng(0).integers(3, 320, 400).tolist()]
    begun = DraftContext(tokens, Sampler(SamplingParams()), cancelled)
    drafter.begin(begun)
    drafter.read(begun, len(tokens))
    assert len(asked) == 3
    tree = drafter.propose(DraftContext(tokens, Sampler(SamplingParams()), lambda: True), BUDGET)
    assert tree.drafted == 0


def reader(model: Decoder, pool: PrefixCache, tokens: list[int], most: int) -> StandaloneDrafter:
    """A drafter of an answer that has read the last tokens only."""
    drafter = StandaloneDrafter(model, pool)
    drafter.begin(context(tokens))
    drafter.read(context(tokens), most)
    return drafter


def test_a_draft_of_the_end_drafts_as_if_nothing_had_been_before(tiny: Decoder) -> None:
    drafter = reader(tiny, PrefixCache(tiny, 256, 1 << 28), PROMPT, 16)
    tokens = list(PROMPT)
    for committed in ([5, 9], [*range(3, 90)], [7]):
        own = tokens[len(PROMPT) - 16 :]
        assert drafter.propose(context(tokens), BUDGET) == begun(tiny, own).propose(
            context(own), BUDGET
        )
        drafter.observe(committed)
        tokens += committed
    assert drafter.missing(context(tokens)) == len(tokens), "all of it, from the beginning"
    drafter.read(context(tokens), len(tokens))
    assert drafter.missing(context(tokens)) == 0
    assert drafter.propose(context(tokens), BUDGET) == begun(tiny, tokens).propose(
        context(tokens), BUDGET
    )


def test_noise_is_that_of_the_whole_sequence_wherever_the_draft_began(tiny: Decoder) -> None:
    params = SamplingParams(temperature=0.9, seed=5)
    drafter = reader(tiny, PrefixCache(tiny, 256, 1 << 28), PROMPT, 16)
    tree = drafter.propose(context(PROMPT, params), replace(BUDGET, width=1))
    written = list(PROMPT)
    for _ in range(4):
        own = written[len(PROMPT) - 16 :]
        rows = tiny.forward(tiny.new_state(256), own, logit_rows=[len(own) - 1]).logits
        written.append(Sampler(params).draw(rows[0], written))
    assert list(tree.tokens[1:]) == written[len(PROMPT) :]


def test_the_next_turn_goes_on_from_where_the_draft_began(tiny: Decoder) -> None:
    drafter = reader(tiny, PrefixCache(tiny, 256, 1 << 28), PROMPT, 20)
    longer = [*PROMPT, *range(30, 60)]
    drafter.begin(context(longer))
    assert drafter.missing(context(longer)) == len(longer) - len(PROMPT) + 1
    drafter.read(context(longer), 64)
    own = longer[len(PROMPT) - 20 :]
    assert drafter.propose(context(longer), BUDGET) == begun(tiny, own).propose(
        context(own), BUDGET
    )
    other = [2, *longer[1:]]
    drafter.begin(context(other[:30]))
    assert drafter.missing(context(other[:30])) == 30, "of another chat it knows nothing"


def test_an_answer_asked_for_again_is_drafted_at_once(tiny: Decoder) -> None:
    """A kept state knows all of it, and yet a state has to be taken."""
    drafter = reader(tiny, PrefixCache(tiny, 256, 1 << 28), [*PROMPT, 5, 6], 99)
    drafter.begin(context(PROMPT))
    assert drafter.missing(context(PROMPT)) == 1
    drafter.read(context(PROMPT), 1)
    assert drafter.propose(context(PROMPT), BUDGET).drafted
    assert drafter.missing(context(PROMPT)) == 0
