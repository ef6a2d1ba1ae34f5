"""Lossless with keys and values in 8 bits: whatever drafts, wherever it lies."""

from __future__ import annotations

import numpy as np
import pytest
from full_models import RandomWeights
from harness import SAMPLINGS, OracleDrafter, RandomController, decode
from head_models import HEADS, HeadWeights, small_target
from native_models import native_decoder
from parallel_runs import RandomPace, lane_of, run
from scripted_lanes import script_the_draft, script_time
from simulated_models import instant, on_simulated
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.simulated.device import SimulatedDevice
from engine.commands import KvType
from engine.request import SamplingParams
from engine.speculative.drafters.combined import CombinedDrafter
from engine.speculative.drafters.lookup import LookupDrafter
from engine.speculative.drafters.model import HeadDrafter, StandaloneDrafter

VOCAB = 320
CONTEXT = 192


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Decoder, Decoder]:
    """A target, and a draft that is often right."""
    folder = write_model(tmp_path_factory.mktemp("kv"))
    return (
        native_decoder(folder, Format.Q8, kv=KvType.Q8),
        native_decoder(folder, Format.Q4, kv=KvType.Q8),
    )


def random_prompt(rng: np.random.Generator, most: int = 140) -> list[int]:
    tokens: list[int] = rng.integers(3, VOCAB, int(rng.integers(1, most))).tolist()
    return tokens + tokens[-int(rng.integers(1, 20)) :]


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_in_turns(sampling: SamplingParams, pair: tuple[Decoder, Decoder]) -> None:
    target, draft = pair
    standalone = StandaloneDrafter(draft, PrefixCache(draft, 512, 1 << 28))
    state = target.new_state(512)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng)
        if seed and len(state):  # on a state that another answer has left
            prompt = [*list(state.tokens)[: int(rng.integers(1, len(state)))], *prompt[:9]]
        plain = decode(target, prompt, sampling)
        oracle = OracleDrafter(plain.tokens, len(prompt), VOCAB, rng)
        for source in (CombinedDrafter([standalone, LookupDrafter()]), oracle):
            controller = RandomController(rng)
            done = decode(
                target, prompt, sampling, drafter=source, controller=controller, state=state
            )
            assert done.tokens == plain.tokens
            assert len(done.rounds) < len(plain.rounds)


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_at_the_same_time(
    sampling: SamplingParams, pair: tuple[Decoder, Decoder], monkeypatch: pytest.MonkeyPatch
) -> None:
    script_the_draft(monkeypatch)
    script_time(monkeypatch)
    target, draft = pair
    lane, accepted = lane_of(draft, others=[LookupDrafter()]), 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        prompt = random_prompt(rng, 100)
        plain = decode(target, prompt, sampling)
        done = run(target, lane, prompt, sampling, controller=RandomPace(rng), patient=True)
        assert done.tokens == plain.tokens
        accepted += done.accepted
    assert accepted


@pytest.mark.release(keep=2, reason="every kind of head")
@pytest.mark.parametrize("split", [True, False], ids=["split", "on the CPU"])
@pytest.mark.parametrize("kind", ["dgf 2", "eagle3"])
def test_heads(kind: str, split: bool) -> None:
    shape, config = small_target(), HEADS[kind]
    weights, native = RandomWeights(shape), NativeBackend(Format.Q8, kv=KvType.Q8)
    alone, target = (Decoder.build(shape, weights, native) for _ in range(2))
    if split:
        device = SimulatedDevice(instant())
        target = on_simulated(shape, weights, device, (0, 2), kv=KvType.Q8)
    assert config.fusion is not None
    target.feed(config.fusion, unlimited())
    head = Decoder.build(config, HeadWeights(config, weights), native)
    rng = np.random.default_rng(4)
    prompt: list[int] = rng.integers(3, shape.vocab_size, 60).tolist()
    for sampling in SAMPLINGS.values():
        plain = decode(alone, prompt, sampling, context=CONTEXT)
        oracle = OracleDrafter(plain.tokens, len(prompt), shape.vocab_size, rng)
        drafter = HeadDrafter(head, PrefixCache(head, CONTEXT - 30, 1 << 28))
        done = decode(
            target,
            prompt,
            sampling,
            drafter=CombinedDrafter([drafter, oracle]),
            controller=RandomController(rng),
            context=CONTEXT,
        )
        assert done.tokens == plain.tokens
