"""A feature head that drafts while its target verifies: the target's text, from true features."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
import pytest
from harness import SAMPLINGS, decode
from head_models import HEADS, MTP, HeadWeights, small_target
from parallel_runs import ParallelRun, RandomPace, lane_of, run
from riddles import VOCAB, RiddleCache, answer, following, riddle_head, riddle_target
from scripted_lanes import script_the_draft, script_time
from watched_lanes import at_rest

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget
from engine.backend.tree import TokenTree
from engine.errors import Cancelled
from engine.model.config import ModelConfig
from engine.request import SamplingParams
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import Outlook, ParallelDraft
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import HeadDrafter
from engine.speculative.sampler import Sampler

FORESEEN = ["greedy", "sampled"]
"""Samplings whose draws a head foresees that solves every riddle."""


@pytest.fixture
def target() -> Decoder:
    return riddle_target()


@pytest.fixture
def head() -> Decoder:
    return riddle_head()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft gets as far as dice say, at each point where a thread could."""
    script_the_draft(monkeypatch)
    script_time(monkeypatch)


class Patient(RandomPace):
    """The target waits for whatever comes."""

    def __init__(self, pace: DraftPace) -> None:
        super().__init__(np.random.default_rng(0))
        self._set = pace

    def pace(self, *, ready: bool) -> DraftPace:
        del ready
        return self._set

    def worth_waiting(self, outlook: Outlook) -> bool:
        return outlook.left is not None and outlook.promise > 0.02

    def prune(self, tree: TokenTree) -> TokenTree:
        return tree


class Liar:
    """Always sure of what is wrong."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(8)

    def begin_seconds(self, context: DraftContext) -> float:
        del context
        return 0.0

    def begin(self, context: DraftContext) -> None:
        """Nothing to prepare."""

    def observe(self, committed: Sequence[int]) -> None:
        """Nothing to learn."""

    def propose(self, context: DraftContext, budget: Budget) -> TokenTree:
        wrong = self._rng.integers(0, VOCAB, 3).tolist()
        nodes = [(place, token, -0.01 * (place + 1)) for place, token in enumerate(wrong)]
        return TokenTree.build(context.tokens[-1], nodes, max(budget.nodes, 1))


def random_prompt(rng: np.random.Generator, most: int = 60) -> list[int]:
    tokens: list[int] = rng.integers(3, VOCAB, int(rng.integers(1, most))).tolist()
    return tokens


def assert_always_right(done: ParallelRun) -> None:
    """Where anything was on offer the target took it, but behind the answer's end."""
    for each in done.rounds:
        assert each.verified.offered == each.accepted
    assert done.accepted > 5


def assert_kept_pairs(lane: ParallelDraft, text: Sequence[int]) -> None:
    """Pairs that are kept for the next answer are the text's, from the target's features."""
    kept = [state for state in lane._pool._states if len(state)]
    assert kept
    own = max(kept, key=lambda state: state.common_prefix(text[1:]))
    assert list(own.tokens) == list(text[1 : 1 + len(own)])
    assert not own.staged
    cache, memory = own.caches[0], following(0, text[0])
    assert isinstance(cache, RiddleCache)
    for place, token in enumerate(own.tokens):
        memory = following(memory, token)
        assert tuple(cache.rows[place]) == (memory, 1)


def until_stopped(
    target: Decoder, lane: ParallelDraft, text: list[int], most: int, rng: np.random.Generator
) -> list[int]:
    """What is written before somebody stops it; nothing where that is before the first token."""
    asked, last = count(), int(rng.integers(0, 40))
    controller, greedy = RandomPace(rng), SAMPLINGS["greedy"]
    try:
        return run(target, lane, text, greedy, controller=controller, max_tokens=most,
                   cancelled=lambda: next(asked) >= last).tokens  # fmt: skip
    except Cancelled:
        return []


@pytest.mark.parametrize("name", FORESEEN)
@pytest.mark.usefixtures("scripted")
def test_what_it_offers_is_right_at_any_pace(name: str, target: Decoder, head: Decoder) -> None:
    lane = lane_of(head)
    for seed in range(6):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng, 2 if seed == 5 else 60)
        plain = decode(target, prompt, SAMPLINGS[name])
        waits = (0.3, 0.8, 1.0)[seed % 3]
        done = run(target, lane, prompt, SAMPLINGS[name], controller=RandomPace(rng, waits))
        assert done.tokens == plain.tokens
        assert_always_right(done)
        assert_kept_pairs(lane, [*prompt, *done.tokens])


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_beside_a_real_thread(sampling: SamplingParams, target: Decoder, head: Decoder) -> None:
    lane = lane_of(head, others=[LookupDrafter()])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng)
        plain = decode(target, prompt, sampling)
        done = run(target, lane, prompt, sampling, controller=RandomPace(rng))
        assert done.tokens == plain.tokens


@pytest.mark.parametrize("pace", [DraftPace(), DraftPace(width=4, theta=0.05, ahead=12)], ids=str)
@pytest.mark.usefixtures("scripted")
def test_what_is_rejected_leaves_nothing_behind(
    pace: DraftPace, target: Decoder, head: Decoder
) -> None:
    """Others propose what is wrong; the head goes on from what the target made of it."""
    lane = lane_of(head, others=[Liar()])
    for name in FORESEEN:
        prompt = random_prompt(np.random.default_rng(4))
        plain = decode(target, prompt, SAMPLINGS[name], max_tokens=80)
        done = run(target, lane, prompt, SAMPLINGS[name], controller=Patient(pace), max_tokens=80)
        assert done.tokens == plain.tokens
        assert sum(each.drafted > each.accepted for each in done.rounds) > 5, "nothing was wrong"
        assert done.accepted > 25
        assert_kept_pairs(lane, [*prompt, *done.tokens])


@pytest.mark.usefixtures("scripted")
def test_turns_of_a_conversation_and_another_beginning(target: Decoder, head: Decoder) -> None:
    lane, rng = lane_of(head), np.random.default_rng(9)
    text, state = random_prompt(rng, 30), target.new_state(512)
    for turn in range(6):
        controller = RandomPace(rng)
        done = run(target, lane, text, SAMPLINGS["greedy"], controller=controller, state=state,
                   max_tokens=24)  # fmt: skip
        assert done.tokens == answer(text, 24)
        assert_always_right(done)
        text += [*done.tokens, *rng.integers(3, VOCAB, 3).tolist()]
        if turn == 2:  # an earlier message is edited
            text = [*text[: len(text) // 2], 5, 6]
        if turn == 4:
            text[0] = 60 - text[0]


@pytest.mark.usefixtures("scripted")
def test_many_tokens_without_a_draft_are_followed(target: Decoder, head: Decoder) -> None:
    """Where the target went alone for long, the head reads what it wrote in pieces."""

    class Late(Patient):
        def pace(self, *, ready: bool) -> DraftPace | None:  # type: ignore[override]
            self.asked += 1
            return None if self.asked in range(2, 150) else super().pace(ready=ready)

        asked = 0

    prompt, lane = [7, 8, 9], lane_of(head)
    done = run(target, lane, prompt, SAMPLINGS["greedy"], controller=Late(DraftPace(ahead=4)),
               max_tokens=200)  # fmt: skip
    assert done.tokens == answer(prompt, 200)
    assert not any(each.drafted for each in done.rounds[3:140])
    assert sum(each.accepted for each in done.rounds[140:]) > 20
    assert_kept_pairs(lane, [*prompt, *done.tokens])


@pytest.mark.usefixtures("scripted")
def test_limits_contexts_and_stops(target: Decoder, head: Decoder) -> None:
    rng = np.random.default_rng(8)
    for context in (40, 65, 130):
        prompt = rng.integers(3, VOCAB, context - 12).tolist()
        for own in (context, context - 4, context - 11, context - 12, context - 13, 20):
            for most in (1, 2, None):
                controller = RandomPace(rng, 1.0)
                done = run(target, lane_of(head, own), prompt, SAMPLINGS["greedy"],
                           controller=controller, max_tokens=most, context=context)  # fmt: skip
                assert done.tokens == answer(prompt, most or 12)
    lane, text = lane_of(head), [3, 4, 5]
    while len(text) < 60:
        text += until_stopped(target, lane, text, 60 - len(text), rng)
    assert text[3:] == answer([3, 4, 5], 57)


@pytest.mark.release(keep=2, reason="every kind of head")
@pytest.mark.parametrize("config", [MTP, *HEADS.values()], ids=["mtp", *HEADS])
@pytest.mark.usefixtures("scripted")
def test_real_heads_of_every_kind(config: ModelConfig) -> None:
    """Their weights are dice, so they are hardly ever right; lossless all the same."""
    target = Decoder.build(small_target(), HeadWeights(small_target()), NativeBackend(Format.Q8))
    assert config.fusion is not None
    target.feed(config.fusion, unlimited())
    draft = Decoder.build(config, HeadWeights(config), NativeBackend(Format.Q4))
    lane = lane_of(draft, others=[LookupDrafter()])
    for seed, sampling in enumerate(SAMPLINGS.values()):
        rng = np.random.default_rng(seed)
        prompt = rng.integers(3, 300, 20).tolist()
        plain = decode(target, prompt, sampling)
        done = run(target, lane, prompt, sampling, controller=RandomPace(rng))
        assert done.tokens == plain.tokens
        assert sum(each.drafted for each in done.rounds) > 20


@pytest.mark.parametrize("reads", [16, 59, 400])
@pytest.mark.parametrize("sampling", ["greedy", "sampled"])
def test_a_head_that_has_read_the_end_offers_what_it_does_in_turns(
    sampling: str, reads: int
) -> None:
    config = next(iter(HEADS.values()))
    target = Decoder.build(small_target(), HeadWeights(small_target()), NativeBackend(Format.Q8))
    assert config.fusion is not None
    target.feed(config.fusion, unlimited())
    draft = Decoder.build(config, HeadWeights(config), NativeBackend(Format.Q4))
    prompt = np.random.default_rng(3).integers(3, 300, 60).tolist()
    state = target.new_state(256)
    target.forward(state, prompt[:-1])
    state.commit(range(len(prompt) - 1))
    context = DraftContext(
        prompt, Sampler(SAMPLINGS[sampling], len(prompt)), lambda: False, state.features
    )
    drafter = HeadDrafter(draft, PrefixCache(draft, 256, 1 << 28))
    drafter.begin(context)
    drafter.read(context, reads)
    chain = drafter.propose(context, Budget(3, 3, 1))
    with lane_of(draft).worker(context, reads=reads) as worker:
        worker.set_pace(DraftPace(ahead=6))
        at_rest(worker)
        tree = worker.tree(400)
    node = 0
    for token, score in zip(chain.tokens[1:], chain.scores[1:], strict=True):
        below = tree.children()[node]
        assert next(iter(below)) == token
        node = below[token]
        np.testing.assert_allclose(tree.scores[node], score, rtol=1e-4, atol=1e-5)
    assert len(chain.tokens) == 4
