"""Lossless over recurrent states: every loop and draft gives the target's own text."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from harness import SAMPLINGS, decode
from hybrid_models import write_hybrid
from native_models import native_decoder
from parallel_runs import RandomPace, lane_of, run
from scripted_lanes import script_the_draft, script_time
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import DraftRequest
from engine.backend.tree import TokenTree
from engine.bench.scripted_draft import FixedDepth
from engine.errors import Cancelled
from engine.speculative import decoding
from engine.speculative.decoding import Decoding
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import StandaloneDrafter
from engine.speculative.loops import plain
from engine.speculative.sampler import Sampler

VOCAB = 320


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Decoder]:
    """A target, itself in fewer bits as a draft that is often right, and one without states."""
    root = tmp_path_factory.mktemp("recurrent")
    folder = write_hybrid(root / "target")
    other = write_model(root / "dense", "qwen2", seed=5, hidden_size=32, num_hidden_layers=1)
    return {
        "target": native_decoder(folder, Format.Q8),
        "recurrent": native_decoder(folder, Format.F16),
        "dense": native_decoder(other, Format.Q8),
    }


def random_prompt(rng: np.random.Generator) -> list[int]:
    tokens: list[int] = rng.integers(3, VOCAB, int(rng.integers(1, 150))).tolist()
    return tokens + tokens[-int(rng.integers(1, 20)) :]


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("draft", ["recurrent", "dense"])
def test_serial(models: dict[str, Decoder], draft: str, sampling: object) -> None:
    target, accepted = models["target"], 0
    pool = PrefixCache(models[draft], 512, 1 << 28)
    for seed in range(4):
        prompt = random_prompt(np.random.default_rng(seed))
        plain = decode(target, prompt, sampling)
        for drafter in (
            LookupDrafter(),
            CombinedDrafter([LookupDrafter(), StandaloneDrafter(models[draft], pool)]),
        ):
            done = decode(target, prompt, sampling, drafter=drafter)
            assert done.tokens == plain.tokens
        accepted += sum(round_.accepted for round_ in done.rounds)
    if draft == "recurrent":
        assert accepted > 20


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("draft", ["recurrent", "dense"])
def test_parallel(
    models: dict[str, Decoder], draft: str, sampling: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_the_draft(monkeypatch)
    script_time(monkeypatch)
    target, accepted = models["target"], 0
    lane = lane_of(models[draft], others=[LookupDrafter()])
    for seed in range(4):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng)
        plain = decode(target, prompt, sampling)
        controller = RandomPace(rng, waits=(0.0, 0.8, 1.0, 1.0)[seed])
        done = run(target, lane, prompt, sampling, controller=controller, patient=seed > 0)
        assert done.tokens == plain.tokens
        accepted += done.accepted
    if draft == "recurrent":
        assert accepted > 5


def test_another_end_of_a_long_prompt_reads_little(
    models: dict[str, Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same document with another question behind it, which begins before the last way back."""
    monkeypatch.setattr(decoding, "SNAPSHOT_EVERY", 128)
    target, greedy = models["target"], SAMPLINGS["greedy"]
    pool = PrefixCache(target, 512, 1 << 28)
    text: list[int] = np.random.default_rng(3).integers(3, VOCAB, 400).tolist()
    for length, least in ((400, 0), (330, 256), (200, 128)):
        prompt = [*text[:length], *text[:70]][:400]
        state = pool.take(prompt)
        answer = Decoding(
            target, state, prompt, Sampler(greedy, len(prompt)), max_tokens=8,
            snapshot=lambda state=state: pool.snapshot(state),
        )  # fmt: skip
        assert least <= answer.reused <= length
        list(answer.prefill())
        list(plain(answer))
        assert answer.tokens[len(prompt) :] == decode(target, prompt, greedy, max_tokens=8).tokens


def test_a_stop_in_the_middle_of_a_forward_leaves_the_states(models: dict[str, Decoder]) -> None:
    model, rng = models["target"], np.random.default_rng(1)
    tokens: list[int] = rng.integers(3, VOCAB, 120).tolist()
    fresh = model.new_state(512)
    expected = model.forward(fresh, tokens).logits[-1].copy()
    state, stopped = model.new_state(512), 0
    for place in range(0, 120, 5):
        for _ in range(4):
            flag = CancelFlag()
            timer = threading.Timer(float(rng.random()) * 2e-3, flag.set)
            timer.start()
            try:
                model.forward(state, rng.integers(3, VOCAB, 60).tolist(), cancel=flag)
            except Cancelled:
                stopped += 1
            timer.join()
            state.discard()
        got = model.forward(state, tokens[place : place + 5]).logits[-1].copy()
        state.commit(range(5))
    assert np.array_equal(got, expected)
    assert stopped


class Pruning(FixedDepth):
    """Has two drafted tokens verified, so that the draft knows some that the target draws next."""

    def prune(self, tree: TokenTree) -> TokenTree:
        return tree.best(2)


@pytest.mark.parametrize("beside", [False, True])
def test_a_draft_goes_back_as_well(
    models: dict[str, Decoder], monkeypatch: pytest.MonkeyPatch, *, beside: bool
) -> None:
    """Its states are recurrent, too: the same prompt, other ends of it, and a second turn."""
    script_the_draft(monkeypatch)
    script_time(monkeypatch)
    target, draft, greedy = models["target"], models["recurrent"], SAMPLINGS["greedy"]
    forward, expand, drafted = Decoder.forward, Decoder.expand, Decoder.draft
    read, pending = list[int](), list[int]()

    def forwarded(self: Decoder, state: Any, tokens: Any, *rest: Any, **named: Any) -> Any:
        in_turns = not beside and self is draft
        read.extend(tokens if in_turns and named["logit_rows"] == () else ())
        return forward(self, state, tokens, *rest, **named)

    def expanded(self: Decoder, state: Any, tokens: Any, parents: Any, wanted: Any, *rest: Any):  # noqa: ANN202
        read.extend(tokens if self is draft and not wanted else ())
        return expand(self, state, tokens, parents, wanted, *rest)

    def drafting(self: Decoder, state: Any, request: DraftRequest, *rest: Any) -> Any:
        pending.append(len(request.pending))
        return drafted(self, state, request, *rest)

    monkeypatch.setattr(Decoder, "draft", drafting)
    monkeypatch.setattr(Decoder, "forward", forwarded)
    monkeypatch.setattr(Decoder, "expand", expanded)
    text: list[int] = np.random.default_rng(5).integers(3, VOCAB, 700).tolist()
    lane = lane_of(draft, context=1024)
    drafter = StandaloneDrafter(draft, PrefixCache(draft, 1024, 1 << 28))
    answer = decode(target, text[:650], greedy, context=1024).tokens
    for prompt, most in (
        (text[:650], 650),
        (text[:650], 8),
        ([*text[:645], *text[:9]], 9 + 8),
        ([*text[:650], *answer, *text[30:60]], 30 + 16),
        ([*text[:560], *text[:30]], 560 - 512 + 30),
    ):
        plain = decode(target, prompt, greedy, context=1024).tokens
        read.clear()
        if beside:
            done = run(target, lane, prompt, greedy, context=1024)
        else:
            steady = Pruning(4)
            done = decode(target, prompt, greedy, drafter=drafter, controller=steady, context=1024)
        assert done.tokens == plain
        assert sum(each.accepted for each in done.rounds) > 10
        assert len(read) <= most
        assert max(pending, default=0) <= 8, "no round goes back"
