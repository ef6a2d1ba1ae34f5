"""Feature heads on the simulated accelerator: the CPU's numbers, counted copies, declared time."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
import pytest
from head_models import HEADS, MTP, HeadWeights, head_config, random_features, small_target
from simulated_models import MEMORY, instant, on_simulated

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool
from engine.backend.native.sampling import NativeDraws
from engine.backend.native.segment import NativeBackend
from engine.backend.round import Budget, DraftRequest, Ranking, VerifyRequest
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import SimulatedSpec
from engine.model.config import ModelConfig
from engine.request import SamplingParams

RANKING, BUDGET = Ranking(0.8, 5, share_noise=True), Budget(12, 3, 3)
TOKENS = list(range(40, 60))
every_head = pytest.mark.parametrize("config", [*HEADS.values(), MTP], ids=[*HEADS, "mtp"])


def simulated(config: ModelConfig, device: SimulatedDevice) -> Decoder:
    return on_simulated(config, HeadWeights(config), device)


def copies(device: SimulatedDevice) -> tuple[int, int]:
    return device.processor.received.nbytes, device.processor.sent.nbytes


@every_head
def test_it_drafts_what_the_cpu_does(config: ModelConfig) -> None:
    """Features go in and the tree comes out, and nothing else."""
    device = SimulatedDevice(instant())
    head, features = simulated(config, device), random_features(config, 20)
    assert head.drafts_trees
    state = head.new_state(64)
    tree = head.draft(state, DraftRequest(TOKENS, RANKING, BUDGET, features))
    assert copies(device) == (4 * 20 + features.nbytes, 16 * len(tree.tokens))
    native = Decoder.build(config, HeadWeights(config), NativeBackend(Format.Q8, ThreadPool(1)))
    assert tree == native.draft(
        native.new_state(64), DraftRequest(TOKENS, RANKING, BUDGET, features)
    )


@pytest.mark.parametrize("name", ["dgf 1", "eagle3 reduced"])
def test_copies_of_forwards(name: str) -> None:
    config, device = HEADS[name], SimulatedDevice(instant())
    head, features = simulated(config, device), random_features(config, 5)
    state = head.new_state(64)
    head.forward(state, TOKENS[:5], features=features, logit_rows=())
    assert copies(device) == (20 + features.nbytes, 0)
    own = np.zeros((2, config.hidden_size), dtype=np.float32)
    received = copies(device)[0]
    head.forward(state, [1, 2], features=own)  # the next level goes on from the outputs
    assert copies(device) == (received + 8 + own.nbytes, own.nbytes + 2 * 4 * config.head_rows)


@pytest.mark.parametrize(("taps", "rows"), [((), 1), ((0, 2), 2)])
def test_a_target_sends_what_a_head_needs(taps: tuple[int, ...], rows: int) -> None:
    """Hidden states or taps, of every forward and of all nodes of a tree; else nothing."""
    target = small_target()
    plain, feeding = SimulatedDevice(instant()), SimulatedDevice(instant())
    sent = []
    for device in (plain, feeding):
        decoder = simulated(target, device)
        if device is feeding:
            kind = "eagle3" if taps else "dgf"
            fusion = head_config(kind).fusion
            assert fusion is not None
            decoder.feed(replace(fusion, taps=taps), unlimited())
        state = decoder.new_state(64)
        decoder.forward(state, TOKENS, logit_rows=(19,))
        state.commit(range(20))
        forward = copies(device)[1]
        draws = NativeDraws(SamplingParams(), target.vocab_size)
        tokens = [*TOKENS, 9]
        decoder.verify(state, draws, VerifyRequest([9, 8, 7], [-1, 0, 0], tokens, 3))
        sent.append((forward, copies(device)[1] - forward))
    row = 4 * target.hidden_size * rows
    assert (sent[1][0] - sent[0][0], sent[1][1] - sent[0][1]) == (20 * row, 3 * row)


def test_a_fusion_takes_its_declared_time() -> None:
    """EAGLE-3's map of the features is read for the target's only."""
    spec = SimulatedSpec(MEMORY, 1e8, 1e12, 1e12, 0.0)
    declared: dict[str, list[float]] = {}
    for name in ("linear", "eagle3"):
        config, device = HEADS[name], SimulatedDevice(spec)
        head, features = simulated(config, device), random_features(config, 1)
        own = np.zeros((1, config.hidden_size), dtype=np.float32)
        state, processor, times = head.new_state(64), device.processor, []
        for given in (features, own):
            before, start = processor.declared_s, perf_counter()
            head.forward(state, [5], features=given, logit_rows=())
            times.append(processor.declared_s - before)
            assert perf_counter() - start >= times[-1]
        declared[name] = times
    assert declared["linear"][0] == pytest.approx(declared["linear"][1], rel=0.05)
    assert declared["eagle3"][0] > 1.1 * declared["eagle3"][1]
