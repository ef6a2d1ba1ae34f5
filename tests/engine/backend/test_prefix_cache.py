"""PrefixCache: coming back to a conversation costs only what changed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from engine.backend.decoder import Decoder
from engine.backend.prefix_cache import MOST_STATES, PrefixCache
from engine.backend.sequence import SequenceState
from engine.bench.modes.measurement import own_states
from engine.errors import OutOfMemory
from engine.loading.load import LoadedPair


def fill(decoder: Decoder, pool: PrefixCache, tokens: list[int], asker: str = "") -> int:
    """Bring a state to `tokens`; returns how many were there already."""
    state = pool.take(tokens, asker)
    kept = state.common_prefix(tokens)
    state.crop(kept)
    if tokens[kept:]:
        decoder.forward(state, tokens[kept:], logit_rows=())
        state.commit(range(len(tokens) - kept))
    return kept


def test_two_conversations_keep_a_state_each(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=1 << 30)
    first, second = [1, *range(10, 40)], [1, *range(50, 80)]
    assert fill(tiny, pool, first) == 0
    assert fill(tiny, pool, second) == 1
    assert fill(tiny, pool, [*first, 5, 6]) == len(first)
    assert fill(tiny, pool, [*second, 7]) == len(second)
    assert len(pool) == 2


def test_the_least_recently_used_state_goes_first(tiny: Decoder) -> None:
    one = tiny.new_state(128).nbytes
    pool = PrefixCache(tiny, context=128, budget_bytes=2 * one)
    a, b, c = ([1, *range(start, start + 20)] for start in (10, 50, 90))
    for tokens in (a, b, a, c):
        fill(tiny, pool, tokens)
    assert len(pool) == 2
    assert pool.nbytes <= 2 * one
    assert fill(tiny, pool, a) == len(a)
    assert fill(tiny, pool, b) == 1


def test_no_more_are_kept_than_each_answer_may_look_through(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=1 << 30)
    conversations = [[1, 2 + number, 3] for number in range(MOST_STATES + 2)]
    for tokens in conversations:
        fill(tiny, pool, tokens)
    assert len(pool) == MOST_STATES
    assert [fill(tiny, pool, tokens) for tokens in conversations[-2:]] == [3, 3]
    assert fill(tiny, pool, conversations[0]) == 1, "the oldest is forgotten"


def test_an_edit_keeps_the_common_part_and_the_old_branch(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=1 << 30)
    old, new = list(range(10, 90)), [*range(10, 80), 3, 4]
    fill(tiny, pool, old)
    assert fill(tiny, pool, new) == 70
    assert fill(tiny, pool, [*old, 7]) == 80
    copied = pool.take([*new, 5])
    fresh = tiny.new_state(128)
    tiny.forward(fresh, new, logit_rows=())
    fresh.commit(range(len(new)))
    logits = [tiny.forward(state, [5]).logits for state in (copied, fresh)]
    assert np.array_equal(*logits), "the copied keys are not those of the prefix"


def test_an_edit_without_memory_for_both_cuts_the_old_branch(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=0)
    fill(tiny, pool, list(range(10, 90)))
    assert fill(tiny, pool, [*range(10, 80), 3, 4]) == 70
    assert len(pool) == 1


def test_a_pool_without_budget_still_keeps_one_state(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=64, budget_bytes=0)
    fill(tiny, pool, [1, 2, 3])
    fill(tiny, pool, [9, 8, 7])
    assert len(pool) == 1


@pytest.mark.parametrize("states", [1, 2, 8])
def test_nobody_finds_what_another_has_asked(tiny: Decoder, states: int) -> None:
    one = tiny.new_state(128).nbytes
    pool = PrefixCache(tiny, context=128, budget_bytes=states * one)
    secret = [1, *range(10, 40)]
    fill(tiny, pool, secret)
    for asker in ("a", "b"):
        assert fill(tiny, pool, secret[:-1], asker) == 0
    assert len(pool) == min(states, 3)
    assert fill(tiny, pool, [*secret[:-1], 5], "b") == len(secret) - 1, "one's own is found"
    assert fill(tiny, pool, secret, "a") == (len(secret) - 1 if states > 1 else 0)
    assert fill(tiny, pool, secret) == (len(secret) if states > 2 else 0)


def test_where_memory_comes_as_it_is_touched_that_decides_beside_what_is_reserved(
    tiny: Decoder,
) -> None:
    """Others go once they leave none, also where nothing new is asked for."""
    one, left = tiny.new_state(128).nbytes, [1]
    pool = PrefixCache(tiny, context=128, budget_bytes=3 * one)
    pool.spare = lambda: left[0]
    conversations = [[1, *range(start, start + 20)] for start in (10, 50, 90)]
    for tokens in conversations:
        fill(tiny, pool, tokens)
    assert len(pool) == 3
    left[0] = -1
    assert fill(tiny, pool, [*conversations[0], 5]) == 21
    assert len(pool) == 1
    fill(tiny, pool, conversations[1])
    assert len(pool) == 1


def test_where_the_system_has_no_memory_the_oldest_goes(
    tiny: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=1 << 30)
    conversations = [[1, *range(start, start + 20)] for start in (10, 50, 90)]
    for tokens in conversations[:2]:
        fill(tiny, pool, tokens)
    new_state = Decoder.new_state

    def full(decoder: Decoder, context: int) -> SequenceState:
        if len(pool) > 1:
            raise MemoryError
        return new_state(decoder, context)

    monkeypatch.setattr(Decoder, "new_state", full)
    fill(tiny, pool, conversations[2])
    assert fill(tiny, pool, conversations[1]) == 21
    assert len(pool) == 2


def test_a_state_without_tokens_is_anybodys(tiny: Decoder) -> None:
    pool = PrefixCache(tiny, context=128, budget_bytes=1 << 30)
    pool.take([0])
    fill(tiny, pool, [1, 2, 3], "a")
    assert len(pool) == 1


def test_kept_states_give_way_to_a_measurement_where_memory_is_short(
    tiny: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = PrefixCache(tiny, context=64, budget_bytes=1 << 30)
    fill(tiny, kept, [1, 2, 3])
    assert len(own_states(cast("LoadedPair", SimpleNamespace(target=tiny, states=kept)))) == 1
    assert len(kept) == 1
    new_state = Decoder.new_state

    def full(decoder: Decoder, context: int) -> SequenceState:
        if len(kept):
            raise OutOfMemory("No memory.", "")
        return new_state(decoder, context)

    monkeypatch.setattr(Decoder, "new_state", full)
    assert len(own_states(cast("LoadedPair", SimpleNamespace(target=tiny, states=kept)))) == 1
    assert len(kept) == 0
