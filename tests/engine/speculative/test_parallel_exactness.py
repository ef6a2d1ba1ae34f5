"""Lossless: drafting while the target verifies changes no token, however the two meet."""

from __future__ import annotations

from itertools import count
from threading import Event
from time import monotonic
from typing import Any

import numpy as np
import pytest
from harness import SAMPLINGS, beside, decode
from native_models import native_decoder
from parallel_runs import (
    LIMIT_S,
    RandomPace,
    assert_kept_keys,
    lane_of,
    no_lane_is_left,
    run,
)
from scripted_lanes import script_the_draft, script_time
from tiny_models import write_model

from engine.backend.decoder import Decoder, Forward
from engine.backend.native.library import Format
from engine.backend.tree import TokenTree
from engine.errors import Cancelled, OutOfMemory
from engine.request import SamplingParams
from engine.speculative import draft_worker
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import DraftWorker, Outlook
from engine.speculative.drafters.lookup import LookupDrafter

VOCAB = 320
Pair = tuple[Decoder, Decoder]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    """A target with a draft that is often right, and one with a draft that hardly ever is."""
    root = tmp_path_factory.mktemp("parallel")
    folder = write_model(root / "target")
    other = write_model(root / "draft", "qwen2", seed=5, hidden_size=32, num_hidden_layers=1)
    target = native_decoder(folder, Format.Q8)
    return {
        "often right": (target, native_decoder(folder, Format.Q4)),
        "hardly ever": (target, native_decoder(other, Format.Q8)),
    }


@pytest.fixture
def pair(pairs: dict[str, Pair]) -> Pair:
    return pairs["often right"]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft gets as far as dice say, at each point where a thread could."""
    script_the_draft(monkeypatch)
    script_time(monkeypatch)


def random_prompt(rng: np.random.Generator, most: int = 100) -> list[int]:
    tokens: list[int] = rng.integers(3, VOCAB, int(rng.integers(1, most))).tolist()
    return tokens + tokens[-int(rng.integers(1, 20)) :]


@pytest.mark.release(keep=3, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("kind", ["often right", "hardly ever"])
@pytest.mark.usefixtures("scripted")
def test_at_any_pace(kind: str, sampling: SamplingParams, pairs: dict[str, Pair]) -> None:
    target, draft = pairs[kind]
    lane = lane_of(draft, others=[LookupDrafter()])
    accepted = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng)
        plain = decode(target, prompt, sampling)
        controller = RandomPace(rng, waits=(0.0, 0.8, 1.0, 1.0)[seed])
        done = run(target, lane, prompt, sampling, controller=controller, patient=seed > 0)
        assert done.tokens == plain.tokens
        accepted += done.accepted
    if kind == "often right":
        assert accepted > 5


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_beside_a_real_thread(sampling: SamplingParams, pair: Pair) -> None:
    """The same text at whatever pace the machine has; how much is drafted is up to it."""
    target, draft = pair
    lane = lane_of(draft, others=[LookupDrafter()])
    for seed in range(2):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng)
        plain = decode(target, prompt, sampling)
        done = run(target, lane, prompt, sampling, controller=RandomPace(rng), patient=seed > 0)
        assert done.tokens == plain.tokens


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.usefixtures("scripted")
def test_turns_of_one_conversation_on_reused_states(sampling: SamplingParams, pair: Pair) -> None:
    target, draft = pair
    lane, state, rng = lane_of(draft), target.new_state(512), np.random.default_rng(9)
    text = random_prompt(rng, 30)
    for turn in range(5):
        plain = decode(target, text, sampling, max_tokens=24)
        done = run(
            target, lane, text, sampling, controller=RandomPace(rng), state=state, max_tokens=24
        )
        assert done.tokens == plain.tokens
        text += [*done.tokens, *rng.integers(3, VOCAB, 3).tolist()]
        if turn == 2:  # an earlier message is edited
            text = [*text[: len(text) // 2], 5, 6]


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.usefixtures("scripted")
def test_the_end_token_inside_what_is_drafted(sampling: SamplingParams, pair: Pair) -> None:
    target, draft = pair
    lane, rng, inside = lane_of(draft), np.random.default_rng(5), 0
    for turn in range(8):
        prompt = random_prompt(rng, 30)
        free = decode(target, prompt, sampling, max_tokens=30)
        end = free.tokens[10 + turn % 8]
        wishes: dict[str, Any] = {"max_tokens": 30, "stop_ids": [end]}
        plain = decode(target, prompt, sampling, **wishes)
        done = run(target, lane, prompt, sampling, controller=RandomPace(rng, 1.0), **wishes)
        assert done.tokens == plain.tokens
        assert done.tokens.index(end) == len(done.tokens) - 1
        inside += done.rounds[-1].accepted == len(done.rounds[-1].tokens)
    assert inside, "no end token was drafted"


@pytest.mark.release(keep=3, reason="every limit")
@pytest.mark.parametrize("max_tokens", [1, 2, 3, 7, None])
@pytest.mark.usefixtures("scripted")
def test_limit_and_context_end_and_a_draft_whose_context_ends_before(
    max_tokens: int | None, pair: Pair
) -> None:
    target, draft = pair
    rng = np.random.default_rng(8)
    for context in (40, 64, 65, 130):
        prompt = rng.integers(3, VOCAB, context - 12).tolist()
        sampling = SamplingParams(temperature=1.0, seed=context)
        plain = decode(target, prompt, sampling, max_tokens=max_tokens, context=context)
        for own in (context, context - 4, context - 11, context - 12, context - 13, 20):
            done = run(
                target,
                lane_of(draft, own),
                prompt,
                sampling,
                controller=RandomPace(rng, 1.0),
                max_tokens=max_tokens,
                context=context,
            )
            assert done.tokens == plain.tokens


@pytest.mark.release(keep=1, reason="every controller")
@pytest.mark.parametrize("wishes", [{"ahead": True}, {"forced": True}, {}], ids=str)
@pytest.mark.usefixtures("scripted")
def test_its_own_controller(wishes: dict[str, bool], pair: Pair) -> None:
    target, draft = pair
    rng, lane = np.random.default_rng(2), lane_of(draft)
    controller = beside(costs=lane.costs, **wishes)
    for _ in range(2):
        prompt = random_prompt(rng)
        plain = decode(target, prompt, SAMPLINGS["sampled"], max_tokens=120)
        done = run(
            target, lane, prompt, SAMPLINGS["sampled"], controller=controller, max_tokens=120
        )
        assert done.tokens == plain.tokens


# -- interrupted ------------------------------------------------------------------------------


def run_or_stopped(*arguments: Any, **wishes: Any) -> list[int]:
    """The tokens; none where it was stopped in the prefill."""
    try:
        return run(*arguments, **wishes).tokens
    except Cancelled:
        assert no_lane_is_left()
        return []


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sampling", [SAMPLINGS["greedy"], SAMPLINGS["sampled filtered"]])
@pytest.mark.usefixtures("scripted")
def test_stopped_at_any_moment_and_continued(
    sampling: SamplingParams, seed: int, pair: Pair
) -> None:
    target, draft = pair
    lane, rng = lane_of(draft), np.random.default_rng(seed)
    prompt = rng.integers(3, VOCAB, 90).tolist()
    plain = decode(target, prompt, sampling, max_tokens=40).tokens
    cuts = set()
    for _ in range(4):
        text = list(prompt)
        while left := len(prompt) + 40 - len(text):
            asked, last = count(), int(rng.integers(0, 60))
            text += run_or_stopped(
                target,
                lane,
                text,
                # Where the answer begins says what penalties count.
                sampling,
                answer_start=len(prompt),
                controller=RandomPace(rng),
                max_tokens=left,
                cancelled=lambda asked=asked, last=last: next(asked) >= last,
                patient=False,
            )
            cuts.add(len(text))
        assert text[len(prompt) :] == plain
    assert len(cuts) > 5


# -- when something goes wrong -----------------------------------------------------------------


class Moody(Decoder):
    """A draft model that fails at a forward, or does not come to the end of one."""

    def __init__(self, model: Decoder) -> None:
        super().__init__(model.config, model.segments, model.ids)
        self.calls = count()
        self.fails_at, self.error = -1, Exception("unset")
        self.sticks_at, self.stuck, self.freed = -1, Event(), Event()

    def mood(self) -> None:
        call = next(self.calls)
        if call == self.fails_at:
            raise self.error
        if call == self.sticks_at:
            self.stuck.set()
            assert self.freed.wait(LIMIT_S)

    def forward(self, *arguments: Any, **wishes: Any) -> Forward:
        self.mood()
        return super().forward(*arguments, **wishes)

    def expand(self, *arguments: Any, **wishes: Any) -> Any:
        self.mood()
        return super().expand(*arguments, **wishes)


class Panic(BaseException):
    """What native extensions raise when they panic."""


@pytest.mark.release(keep=1, reason="every kind of error")
@pytest.mark.parametrize(
    "error",
    [RuntimeError("broken"), OutOfMemory("no memory", "close something"), Panic("broken")],
    ids=type,
)
@pytest.mark.usefixtures("scripted")
def test_a_draft_that_fails_at_any_moment(error: BaseException, pair: Pair) -> None:
    target, draft = pair[0], Moody(pair[1])
    lane, rng = lane_of(draft), np.random.default_rng(6)
    prompt = rng.integers(3, VOCAB, 150).tolist()
    plain = decode(target, prompt, SAMPLINGS["sampled"]).tokens
    failed = 0
    for call in (0, 1, 2, 3, 5, 8, 13, 21):
        draft.calls, draft.fails_at, draft.error = count(), call, error
        try:
            done = run(target, lane, prompt, SAMPLINGS["sampled"], controller=RandomPace(rng))
        except type(error):
            failed += 1
        else:
            assert done.tokens == plain
        assert no_lane_is_left()
        draft.fails_at = -1
        again = run(target, lane, prompt, SAMPLINGS["sampled"], controller=RandomPace(rng))
        assert again.tokens == plain
    assert failed >= 5


@pytest.mark.release(keep=2, reason="every moment")
@pytest.mark.parametrize("call", [0, 1, 4, 9])
def test_a_draft_that_does_not_answer_holds_nobody_up(
    call: int, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target goes on alone; only at the very end somebody waits for it, and not for ever."""
    target, draft = pair[0], Moody(pair[1])
    draft.sticks_at = call
    lane, prompt = lane_of(draft), list(range(3, 130))
    sampling = SAMPLINGS["sampled"]
    plain = decode(target, prompt, sampling).tokens
    written: list[int] = []
    monkeypatch.setattr(draft_worker, "_PATIENCE_S", 0.1)
    with pytest.raises(RuntimeError, match="does not come to an end"):
        run(
            target,
            lane,
            prompt,
            sampling,
            controller=beside(costs=lane.costs, ahead=True),
            patient=False,
            written=written,
            prepared=lambda: draft.stuck.wait(LIMIT_S),
        )
    assert written == plain
    monkeypatch.undo()
    draft.freed.set()
    end = monotonic() + LIMIT_S
    while not no_lane_is_left():
        assert monotonic() < end
    assert run(target, lane, prompt, sampling).tokens == plain


@pytest.mark.parametrize("error", [RuntimeError("lost"), Panic("lost"), KeyboardInterrupt()])
def test_a_target_that_fails_leaves_no_lane_behind(
    error: BaseException, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, draft = pair
    lane, prompt = lane_of(draft), list(range(3, 70))
    plain = decode(target, prompt, SAMPLINGS["greedy"]).tokens
    verify, calls = Decoding.verify, count()

    def fails(self: Decoding, *arguments: Any) -> Any:
        if next(calls) == 4:
            raise error
        return verify(self, *arguments)

    monkeypatch.setattr(Decoding, "verify", fails)
    with pytest.raises(type(error)):
        run(target, lane, prompt, SAMPLINGS["greedy"])
    assert no_lane_is_left()
    assert_kept_keys(lane, [*prompt, *plain])
    assert run(target, lane, prompt, SAMPLINGS["greedy"]).tokens == plain


def test_whatever_the_lane_says_the_target_has_the_last_word(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane that lies about everything costs time, and no token."""
    target, draft = pair
    rng = np.random.default_rng(3)
    prompt = random_prompt(rng)
    plain = decode(target, prompt, SAMPLINGS["sampled hot"]).tokens

    class Liar(DraftWorker):
        def tree(self, most: int) -> TokenTree:
            root = self._tokens[-1]
            nodes = [
                (int(rng.integers(0, node + 1)), int(rng.integers(3, VOCAB)), -float(node))
                for node in range(8)
            ]
            return TokenTree.build(root, nodes, most)

        @property
        def ready(self) -> bool:
            return bool(rng.random() < 0.5)

        def outlook(self) -> Outlook:
            super().outlook()
            return Outlook(1.0, float(rng.choice([0.0, 1e-4])))

    monkeypatch.setattr("engine.speculative.draft_worker.DraftWorker", Liar)
    controller, sampling = RandomPace(rng), SAMPLINGS["sampled hot"]
    done = run(target, lane_of(draft), prompt, sampling, controller=controller, patient=False)
    assert done.tokens == plain
