"""The draft lane: what it proposes is what the draft says, whatever was committed before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from threading import Semaphore
from threading import enumerate as threads
from time import monotonic
from typing import TYPE_CHECKING, Self

import numpy as np
import pytest
from watched_lanes import (
    FEW,
    LIMIT_S,
    PARAMS,
    PROMPT,
    Watched,
    assert_right,
    at_rest,
    context,
    lane_of,
    until,
)

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.events import Interval
from engine.speculative.costs import DraftCosts
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import DraftWorker, ParallelDraft
from engine.speculative.drafters.model import StandaloneDrafter

if TYPE_CHECKING:
    from engine.backend.tree import TokenTree

Pair = tuple[Decoder, Decoder]


@pytest.fixture
def draft(native: dict[Format, Pair]) -> Watched:
    return Watched(native[Format.Q8][1])


def taken(tree: TokenTree, rng: np.random.Generator, goes_on: float) -> list[int]:
    """Tokens along a random path of the tree, and one more, which it may have or not."""
    node, tokens = 0, []
    while (below := tree.children()[node]) and rng.random() < goes_on:
        tokens.append(int(rng.choice(list(below))))
        node = below[tokens[-1]]
    return [*tokens, int(rng.integers(3, 320))]


def commit(following: DraftWorker, tokens: list[int], more: list[int]) -> None:
    following.commit(more)
    tokens += more


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", PARAMS)
@pytest.mark.parametrize(
    "pace", [FEW, DraftPace(width=4, theta=0.2, ahead=12)], ids=["chain", "sequences"]
)
def test_whatever_was_committed_the_candidates_are_those_of_a_fresh_state(
    draft: Watched, pace: DraftPace, sampling: str
) -> None:
    params, rng, tokens, computed = PARAMS[sampling], np.random.default_rng(3), list(PROMPT), 0
    with lane_of(draft).worker(context(tokens, params)) as following:
        following.set_pace(pace)
        for turn in range(24):
            if turn % 3:  # else the lane is interrupted anywhere
                at_rest(following)
                tree = following.tree(400)
                computed += assert_right(draft, tokens, params, tree)
            commit(following, tokens, taken(following.tree(400), rng, 0.8))
    assert computed > 16 * 6


def test_a_draft_without_the_one_call_is_asked_level_by_level(tiny_draft: Decoder) -> None:
    draft, params = Watched(tiny_draft), PARAMS["sampled"]
    assert not draft.expands_trees
    rng, tokens = np.random.default_rng(7), list(PROMPT)
    with lane_of(draft).worker(context(tokens, params)) as following:
        following.set_pace(DraftPace(width=4, theta=0.2, ahead=12))
        for _ in range(12):
            at_rest(following)
            tree = following.tree(400)
            assert assert_right(draft, tokens, params, tree) >= 12
            commit(following, tokens, taken(tree, rng, 0.8))


@pytest.mark.parametrize("sampling", PARAMS)
def test_it_proposes_what_the_serial_drafter_does(draft: Watched, sampling: str) -> None:
    params, rng, tokens = PARAMS[sampling], np.random.default_rng(5), list(PROMPT)
    with lane_of(draft).worker(context(tokens, params)) as following:
        following.set_pace(DraftPace(width=2, theta=0.5, ahead=10))
        for _ in range(8):
            at_rest(following)
            tree = following.tree(400)
            serial = StandaloneDrafter(draft, PrefixCache(draft, 256, 1 << 28))
            serial.begin(context(tokens, params))
            serial.read(context(tokens, params), len(tokens))
            chain = serial.propose(context(tokens, params), Budget(nodes=3, depth=3, width=1))
            node, seen = 0, 0
            for token, score in zip(chain.tokens[1:], chain.scores[1:], strict=True):
                if not (below := tree.children()[node]):
                    break
                assert next(iter(below)) == token
                node, seen = below[token], seen + 1
                np.testing.assert_allclose(tree.scores[node], score, rtol=1e-5, atol=1e-6)
            assert seen
            commit(following, tokens, taken(tree, rng, 0.6))


def test_committed_drafts_are_not_computed_again(draft: Watched) -> None:
    tokens = list(PROMPT)
    with lane_of(draft).worker(context(tokens)) as following:
        following.set_pace(FEW)
        for _ in range(60):
            at_rest(following)
            tree = following.tree(1)
            commit(following, tokens, [tree.tokens[1]])
        at_rest(following)
        rows = list(draft.rows)
        assert_right(draft, tokens, PARAMS["greedy"], following.tree(100))
    # Nothing twice, though much of it was settled meanwhile.
    assert rows[0] == len(PROMPT) - 1
    assert set(rows[1:]) == {1}


def test_the_next_turn_begins_where_the_last_one_ended(draft: Watched) -> None:
    tokens, lane = list(PROMPT), lane_of(draft)
    with lane.worker(context(tokens)) as following:
        following.set_pace(FEW)
        for _ in range(5):
            at_rest(following)
            commit(following, tokens, list(following.tree(2).tokens[1:2]))
        at_rest(following)  # the root is staged
    draft.rows.clear()
    tokens += [7, 8, 9]
    with lane.worker(context(tokens)) as following:
        following.set_pace(FEW)
        at_rest(following)
        rows = list(draft.rows)
        assert_right(draft, tokens, PARAMS["greedy"], following.tree(100))
    assert rows[0] == 2  # all but the root of what was added
    assert len(rows) >= 1 + 6


def test_what_was_committed_long_ago_is_caught_up_with(draft: Watched) -> None:
    rng, tokens = np.random.default_rng(1), list(PROMPT)
    with lane_of(draft, 400).worker(context(tokens)) as following:
        following.set_pace(FEW)
        at_rest(following)
        following.set_pace(None)
        for _ in range(50):
            commit(following, tokens, rng.integers(3, 320, 4).tolist())
        assert following.outlook().left is None
        following.set_pace(FEW)
        at_rest(following)
        assert assert_right(draft, tokens, PARAMS["greedy"], following.tree(100)) >= 6


def test_at_rest_nothing_is_computed(draft: Watched) -> None:
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        at_rest(following)
        following.set_pace(None)
        count = len(draft.rows)
        following.commit([5])
        following.wait(0.05)
        assert following.tree(9).drafted == 0
        assert len(draft.rows) == count


def test_without_a_pace_not_even_the_prompt_is_read(draft: Watched) -> None:
    tokens = list(PROMPT)
    with lane_of(draft).worker(context(tokens), None) as following:
        commit(following, tokens, [5])
        following.wait(0.05)
        assert draft.rows == []
        assert not following.ready
        following.set_pace(FEW)
        at_rest(following)
        assert_right(draft, tokens, PARAMS["greedy"], following.tree(100))


def test_without_overlap_no_step_begins_while_the_target_verifies(draft: Watched) -> None:
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(DraftPace(ahead=4, overlap=False))
        at_rest(following)
        count = len(draft.rows)
        with following.verifying():
            following.commit([5])
            following.wait(0.05)
            assert len(draft.rows) == count
        at_rest(following)
        assert len(draft.rows) > count


def test_with_overlap_it_drafts_while_the_target_verifies(draft: Watched) -> None:
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        at_rest(following)
        with following.verifying():
            following.commit([5])
            at_rest(following)
        assert following.tree(100).drafted >= 6


def test_waiting_ends_with_the_step(draft: Watched) -> None:
    draft.gate = Semaphore(0)
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        draft.gate.release(3)  # the prompt, two steps; the third is held up
        until(following, lambda: following.tree(99).drafted >= 9)
        until(following, lambda: len(draft.rows) == 4)
        outlook = following.outlook()
        assert outlook.promise > 0
        assert outlook.left is not None
        before = following.tree(99).drafted
        draft.gate.release()
        start = monotonic()
        following.wait(LIMIT_S)
        assert monotonic() - start < LIMIT_S / 2
        assert following.tree(99).drafted > before
        draft.gate.release(99)


def test_a_step_that_ended_before_the_waiting_is_not_waited_for(draft: Watched) -> None:
    draft.gate = Semaphore(1)
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        draft.await_forwards(2)  # the prompt and a step, which is held up
        following.outlook()
        draft.gate.release()
        draft.await_forwards(1)  # that step is over
        start = monotonic()
        following.wait(LIMIT_S)  # it has ended since it was looked at
        assert monotonic() - start < LIMIT_S / 2
        draft.gate.release(99)


def test_what_fails_in_the_lane_is_raised_in_the_engine_thread(draft: Watched) -> None:
    lane = lane_of(draft)
    draft.failing = 2
    with (
        pytest.raises(RuntimeError, match="the draft has failed"),
        lane.worker(context(PROMPT)) as following,
    ):
        until(following, lambda: False)
    assert len(lane._pool) == 0
    draft.failing = 1e9
    with lane.worker(context(PROMPT)) as following:
        at_rest(following)


def test_a_failure_that_nobody_was_told_of_is_raised_at_the_end(draft: Watched) -> None:
    draft.failing, draft.gate = 1, Semaphore(1)

    def end() -> None:
        with lane_of(draft).worker(context(PROMPT)) as following:
            until(following, lambda: len(draft.rows) == 2)
            assert draft.gate is not None
            draft.gate.release()

    with pytest.raises(RuntimeError, match="the draft has failed"):
        end()


@pytest.mark.parametrize("failing", [False, True])
def test_the_thread_ends_with_the_answer(draft: Watched, *, failing: bool) -> None:
    lane = lane_of(draft)
    try:
        with lane.worker(context(PROMPT)) as following:
            assert following.alive
            if failing:
                raise KeyError
    except KeyError:
        assert failing
    assert not following.alive
    assert "draft worker" not in {thread.name for thread in threads()}


def test_a_lane_follows_one_answer_at_a_time(draft: Watched) -> None:
    lane = lane_of(draft)
    with (
        lane.worker(context(PROMPT)),
        pytest.raises(RuntimeError, match="another answer"),
        lane.worker(context(PROMPT)),
    ):
        pass


def test_past_its_own_context_it_drafts_nothing_and_says_so(draft: Watched) -> None:
    tokens = list(PROMPT)
    with lane_of(draft, len(PROMPT) + 1).worker(context(tokens)) as following:
        following.set_pace(DraftPace(ahead=400))
        at_rest(following)
        tree = following.tree(400)
        assert max(tree.depths) == 2  # there is no room to compute those
        assert_right(draft, tokens, PARAMS["greedy"], tree)
        commit(following, tokens, list(tree.tokens[1:2]))
        at_rest(following)
        assert max(following.tree(400).depths) == 1
        commit(following, tokens, [5])
        until(following, lambda: not following.ready)
        assert following.outlook().left is None
        assert following.tree(9).drafted == 0
        commit(following, tokens, [5])


def test_settling_does_not_move_the_end_of_the_context(draft: Watched) -> None:
    tokens, limit = list(PROMPT), len(PROMPT) + 50
    with lane_of(draft, limit).worker(context(tokens)) as following:
        following.set_pace(FEW)
        while len(tokens) <= limit:
            at_rest(following)
            tree = following.tree(400)
            assert max(tree.depths) <= limit - len(tokens) + 1
            commit(following, tokens, [tree.tokens[1]])
        until(following, lambda: not following.ready)


def test_a_prompt_beyond_its_context_is_none_of_its_business(draft: Watched) -> None:
    with lane_of(draft, 20).worker(context(PROMPT)) as following:
        following.commit([5])
        following.wait(0.02)
        assert not following.ready
        assert following.tree(9).drafted == 0
    assert draft.rows == []


def test_near_the_end_of_the_context_it_makes_do_with_the_room_there_is(draft: Watched) -> None:
    tokens = list(PROMPT)
    limit = len(PROMPT) + 30
    with lane_of(draft, limit).worker(context(tokens)) as following:
        following.set_pace(DraftPace(width=16, theta=0.0, ahead=500))
        for _ in range(26):
            draft.rows.clear()
            until(following, lambda: len(draft.rows) >= 6 or following._full)
            tree = following.tree(900)
            commit(following, tokens, [tree.tokens[1]] if tree.drafted else [5])
        until(following, lambda: following._full)
        assert following.outlook().left is None
        assert_right(draft, tokens, PARAMS["greedy"], following.tree(900))


@pytest.mark.parametrize("sampling", PARAMS)
def test_what_has_read_the_end_drafts_as_if_nothing_had_been_before(
    draft: Watched, sampling: str
) -> None:
    params, rng, tokens = PARAMS[sampling], np.random.default_rng(9), list(PROMPT)
    with lane_of(draft).worker(context(tokens, params), reads=0) as following:
        following.set_pace(FEW)
        assert (following.missing, following._model.begun) == (len(PROMPT), False)
        commit(following, tokens, [7])
        following.read(16)
        for _ in range(5):
            at_rest(following)
            tree = following.tree(400)
            own = tokens[len(PROMPT) + 1 - 16 :]
            assert assert_right(draft, own, params, tree, before=len(tokens) - len(own)) >= 6
            commit(following, tokens, taken(tree, rng, 0.7))
        assert (following.missing, following._model.begun) == (len(tokens), True)
        following.read(len(tokens))
        assert following.missing == 0, "it is being read"
        for _ in range(3):
            commit(following, tokens, taken(following.tree(400), rng, 0.7))
            at_rest(following)
            late = following.reading_times()
        commit(following, tokens, [11])
        at_rest(following)
        assert_right(draft, tokens, params, following.tree(400))
        assert following.missing == 0
        assert not late, "read once"


def test_a_prompt_beyond_its_context_is_drafted_from_by_its_end(draft: Watched) -> None:
    with lane_of(draft, 30).worker(context(PROMPT), reads=16) as following:
        following.set_pace(FEW)
        at_rest(following)
        assert following.tree(9).drafted
    assert draft.rows[0] == 15


def test_a_step_of_which_nothing_can_come_is_not_waited_for(draft: Watched) -> None:
    draft.gate = Semaphore(2)
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        until(following, lambda: following.tree(99).drafted > 0 and len(draft.rows) == 3)
        wrong = next(token for token in range(3, 99) if token not in following.tree(99).tokens)
        lately = following.commit([wrong])
        assert not lately.hit
        assert lately.wasted > 0
        assert following.tree(99).drafted == 0
        draft.gate.release(99)
        at_rest(following)
        assert_right(draft, [*PROMPT, wrong], PARAMS["greedy"], following.tree(100))


class NotedCosts(DraftCosts):
    """Costs that remember what they have learnt from."""

    def __init__(self, levels: Sequence[float]) -> None:
        super().__init__(levels, beside=True)
        self.steps: list[tuple[int, float]] = []

    def add(self, size: int, seconds: float) -> None:
        self.steps.append((size, seconds))
        super().add(size, seconds)


def test_it_tells_when_it_drafted_and_what_came_of_it(draft: Watched) -> None:
    rng, tokens = np.random.default_rng(0), list(PROMPT)
    spans: list[Interval] = []
    costs = NotedCosts([0.01])
    useful = wasted = 0.0
    lane = ParallelDraft(draft, PrefixCache(draft, 512, 1 << 28), costs=costs)
    with lane.worker(context(tokens)) as following:
        following.set_pace(FEW)
        for _ in range(12):
            at_rest(following)
            tree = following.tree(99)
            more = taken(tree, rng, 0.7)
            hit = tree.drafted and set(more[:1]) <= set(tree.children()[0])
            lately = following.commit(more)
            assert lately.hit <= bool(hit)
            spans += lately.drafting
            useful, wasted = useful + lately.useful, wasted + lately.wasted
    assert all(span.seconds >= 0 for span in spans)
    assert all(one.end <= two.start for one, two in pairwise(spans))
    assert useful > 0
    assert wasted > 0
    drafted = sum(seconds for _, seconds in costs.steps)
    assert useful + wasted <= drafted + 1e-9
    assert drafted <= sum(span.seconds for span in spans) + 1e-9
    assert all(rows >= 1 for rows, _ in costs.steps)


def test_steps_teach_the_costs_that_the_controller_goes_by(draft: Watched) -> None:
    """A comparison of modes has its own: what it learns is not true of chats."""
    lane, own, tokens = lane_of(draft), NotedCosts([0.01]), list(PROMPT)
    with lane.worker(context(tokens), costs=own) as following:
        following.set_pace(FEW)
        at_rest(following)
        following.commit(taken(following.tree(99), np.random.default_rng(0), 0.7))
    assert own.steps
    assert not lane.costs.known


def test_lookups_are_added_after_a_commit(draft: Watched) -> None:
    tokens = [1, 30, 31, 32, 33, 34, 40, 41, 30, 31]
    with lane_of(draft, lookup=True).worker(context(tokens)) as following:
        following.set_pace(FEW)
        at_rest(following)
        following.commit([32])
        tree = following.tree(400)
        node, text = 0, []
        for token in (33, 34, 40):
            node = tree.children()[node][token]
            text.append(tree.tokens[node])
        assert text == [33, 34, 40]
        at_rest(following)


def test_behind_a_hopeless_step_there_is_the_next_one_to_wait_for(draft: Watched) -> None:
    draft.gate = Semaphore(2)
    with lane_of(draft).worker(context(PROMPT)) as following:
        following.set_pace(FEW)
        until(following, lambda: following.tree(99).drafted > 0 and len(draft.rows) == 3)
        wrong = next(token for token in range(3, 99) if token not in following.tree(99).tokens)
        following.commit([wrong])  # the step that is held up was for something else
        outlook = following.outlook()
        assert outlook.promise == 1.0  # the token's own candidates come next
        assert outlook.left is not None
        draft.gate.release(99)


def test_tokens_are_committed_under_the_lock(draft: Watched) -> None:
    """The thread reads them while the engine thread adds to them."""
    locked: list[bool] = []

    class Guarded(list[int]):
        def __iadd__(self, more: Iterable[int]) -> Self:  # type: ignore[misc]
            locked.append(not following._changed.acquire(blocking=False))
            return super().__iadd__(more)

    with lane_of(draft).worker(context(PROMPT)) as following:
        following._tokens = Guarded(following._tokens)
        following.commit([7, 8])
        assert following._tokens == [*PROMPT, 7, 8]
    assert locked == [True]


def test_a_draft_that_does_not_answer_is_given_up(
    draft: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.speculative.draft_worker._PATIENCE_S", 0.01)
    draft.gate, lane = Semaphore(0), lane_of(draft)
    with (
        pytest.raises(RuntimeError, match="does not come to an end"),
        lane.worker(context(PROMPT)) as following,
    ):
        draft.await_forwards(1)
    with pytest.raises(RuntimeError, match="another answer"), lane.worker(context(PROMPT)):
        pass
    draft.gate.release(99)
    following._thread.join(LIMIT_S)
    assert not following.alive
    monkeypatch.undo()
    with lane.worker(context(PROMPT)) as following:
        at_rest(following)


def test_how_long_a_step_takes_is_told_by_those_of_its_width() -> None:
    costs = DraftCosts((1.0, 1.0, 1.0, 1.0), beside=True)
    assert costs.left(1, 0.0) is None, "what is only expected nobody waits for"
    for _ in range(80):
        costs.add(1, 2.0)
        costs.add(8, 4.0)
    assert costs.left(1, 0.5) == pytest.approx(1.5, rel=0.01)
    assert costs.left(8, 0.5) == pytest.approx(3.5, rel=0.01)
    between = costs.left(4, 0.0)
    assert between is not None
    assert 2.0 < between < 4.0
    assert costs.left(1, 6.0) == pytest.approx(4.0, rel=0.01)  # late: as long again, maybe
    for _ in range(200):
        costs.add(1, 1.0)
    assert costs.left(1, 0.0) == pytest.approx(1.0, rel=0.01)
