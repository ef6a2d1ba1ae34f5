"""A feature head drafts from the target's own features, whatever was accepted, reused or cut."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest
from harness import SAMPLINGS, FixedBudget, Run, decode
from riddles import answer, riddle_head, riddle_target

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.backend.sequence import FeatureStore, SequenceState
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.model import HeadDrafter
from engine.speculative.sampler import Sampler

CONTEXT = 200
PROMPT = [1, *range(20, 50)]
TREE = Budget(nodes=40, depth=4, width=3)


@pytest.fixture
def target() -> Decoder:
    return riddle_target()


@pytest.fixture
def head() -> HeadDrafter:
    draft = riddle_head()
    return HeadDrafter(draft, PrefixCache(draft, CONTEXT, 1 << 28))


def drafted(
    target: Decoder,
    drafter: HeadDrafter,
    prompt: list[int],
    sampling: SamplingParams | None = None,
    *,
    budget: Budget = TREE,
    state: SequenceState | None = None,
    count: int = 40,
) -> Run:
    return decode(
        target,
        prompt,
        sampling or SamplingParams(),
        drafter=drafter,
        controller=FixedBudget(budget),
        state=state,
        max_tokens=count,
        context=CONTEXT,
    )


def assert_always_right(run: Run, depth: int = TREE.depth) -> None:
    """Every drafted path was accepted to its end, but where the answer ends."""
    drafting = [len(done.tokens) for done in run.rounds if done.draft is not None]
    assert len(drafting) > 2
    assert set(drafting[:-1]) == {depth + 1}


@pytest.mark.parametrize("width", [1, 3])
def test_the_head_sees_the_features_of_every_committed_token(
    width: int, target: Decoder, head: HeadDrafter
) -> None:
    run = drafted(target, head, PROMPT, budget=Budget(nodes=40, depth=4, width=width))
    assert run.tokens == answer(PROMPT, 40)
    assert_always_right(run)
    moved = [done for done in run.rounds if done.drafted > done.accepted > 0]
    assert bool(moved) == (width > 1), "accepted nodes lay between others, or they did not"


def test_what_is_rejected_leaves_nothing_behind(target: Decoder, head: HeadDrafter) -> None:
    """At a temperature the target often leaves the head's path, and the head finds it again."""
    sampling = SAMPLINGS["sampled"]
    plain = decode(target, PROMPT, sampling, max_tokens=80, context=CONTEXT)
    run = drafted(target, head, PROMPT, sampling, count=80)
    assert run.tokens == plain.tokens
    # With the target's own noise the head foresees its draws, too.
    assert_always_right(run)


def test_without_the_targets_noise_the_tree_holds_what_is_likeliest(
    target: Decoder, head: HeadDrafter
) -> None:
    state = target.new_state(CONTEXT)
    target.forward(state, PROMPT, logit_rows=())
    state.commit(range(len(PROMPT)))
    tokens = [*PROMPT, *answer(PROMPT, 1)]
    expected = answer(PROMPT, 6)[1:]
    for _ in range(3):  # the same tree again, without a commit between
        context = DraftContext(tokens, Sampler(SamplingParams()), lambda: False, state.features)
        head.begin(context)
        head.read(context, len(context.tokens))
        tree = head.propose(context, Budget(5, 5, 1))
        assert list(tree.tokens[1:]) == expected


def test_a_head_that_read_the_end_has_the_features_of_its_own_tokens(
    target: Decoder, head: HeadDrafter
) -> None:
    state = target.new_state(CONTEXT)
    target.forward(state, PROMPT, logit_rows=())
    state.commit(range(len(PROMPT)))
    tokens = [*PROMPT, *answer(PROMPT, 1)]
    context = DraftContext(tokens, Sampler(SamplingParams()), lambda: False, state.features)
    head.begin(context)
    head.read(context, 9)
    assert head.missing(context) > 9
    first = len(tokens) - 10  # the head's tokens are a sequence's without the first

    class FromThere:
        def rows(self, start: int, stop: int) -> Floats:
            assert state.features is not None
            return state.features.rows(first + start, first + stop)

    there = replace(context, tokens=tokens[first:], features=cast("FeatureStore", FromThere()))
    fresh = riddle_head()
    other = HeadDrafter(fresh, PrefixCache(fresh, CONTEXT, 1 << 28))
    other.begin(there)
    other.read(there, len(tokens))
    tree = head.propose(context, Budget(9, 5, 2))
    assert tree == other.propose(there, Budget(9, 5, 2))
    assert tree.drafted == 9


def test_a_second_turn_drafts_like_a_fresh_run(target: Decoder, head: HeadDrafter) -> None:
    rng = np.random.default_rng(3)
    first = drafted(target, head, PROMPT)
    turns = {
        "goes on": [*PROMPT, *first.tokens, *rng.integers(0, 61, 20).tolist()],
        "edited": [*PROMPT[:20], *rng.integers(0, 61, 15).tolist()],
        "shorter": PROMPT[:12],
        "again": PROMPT,
        "another beginning": [2, *PROMPT[1:]],
    }
    for name, prompt in turns.items():
        run = drafted(target, head, prompt, state=first.state)
        assert run.tokens == answer(prompt, 40), name
        assert_always_right(run)


def test_another_chat_and_back(target: Decoder, head: HeadDrafter) -> None:
    pool = PrefixCache(target, CONTEXT, 1 << 28)
    rng = np.random.default_rng(4)
    chats = [[1, *rng.integers(0, 61, 30).tolist()] for _ in range(2)]
    chats.append([*chats[0][:20], *chats[1][:9]])
    for turn in range(6):
        prompt = chats[turn % 3]
        run = drafted(target, head, prompt, state=pool.take(prompt), count=20)
        assert_always_right(run)
        prompt += [*run.tokens, turn]


def test_the_first_draft_after_a_prompt_of_one_token(target: Decoder, head: HeadDrafter) -> None:
    run = drafted(target, head, [7])
    assert run.tokens == answer([7], 40)
    assert_always_right(run)


def test_up_to_the_end_of_its_own_context(target: Decoder) -> None:
    draft = riddle_head()
    short = HeadDrafter(draft, PrefixCache(draft, len(PROMPT) + 20, 1 << 28))
    run = drafted(target, short, PROMPT)
    assert run.tokens == answer(PROMPT, 40)
    assert [len(done.tokens) for done in run.rounds[1:5]] == [5] * 4
    assert all(not done.drafted for done in run.rounds[6:])


def test_where_no_features_are_kept_it_proposes_nothing(head: HeadDrafter) -> None:
    context = DraftContext(PROMPT, Sampler(SamplingParams()), lambda: False)
    head.begin(context)
    assert head.propose(context, TREE).drafted == 0
    head.observe([3])
    assert head.missing(context) == 0


def test_a_stop_ends_the_catching_up(target: Decoder, head: HeadDrafter) -> None:
    state, asked = target.new_state(CONTEXT), list[int]()

    def cancelled() -> bool:
        asked.append(1)
        return len(asked) > 1

    prompt = [1] * 180
    target.forward(state, prompt, logit_rows=())
    state.commit(range(len(prompt)))
    tokens = [*prompt, 5]
    begun = DraftContext(tokens, Sampler(SamplingParams()), cancelled, state.features)
    head.begin(begun)
    head.read(begun, len(tokens))
    assert len(asked) == 2
    stopped = DraftContext(tokens, Sampler(SamplingParams()), lambda: True, state.features)
    assert head.propose(stopped, TREE).drafted == 0
    going = DraftContext(tokens, Sampler(SamplingParams()), lambda: False, state.features)
    assert head.propose(going, TREE).drafted > 0
