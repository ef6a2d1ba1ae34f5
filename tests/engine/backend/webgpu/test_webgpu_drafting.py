"""Trees drafted on a WebGPU adapter: one list of work, and the tree that forwards by level give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from draft_twins import (
    SAMPLINGS,
    BrokenWeights,
    Twins,
    check_a_full_cache,
    check_broken,
    check_floors,
)
from full_models import RandomWeights
from harness import SAMPLINGS as EXACT
from harness import RandomController, decode
from head_models import HEADS, MTP, HeadWeights, random_features, small_target
from on_adapter import shared_device

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.native.segment import NativeBackend
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Budget, DraftRequest, Ranking
from engine.backend.webgpu.gpu import DeviceWork
from engine.backend.webgpu.sizes import RANKED_SLICE, level_numbers
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.weights.readable import Weights
from engine.speculative.drafters.model import DecoderDrafter, HeadDrafter, StandaloneDrafter

SMALL = small_target(2)
MODELS: dict[str, ModelConfig] = {
    "stand-alone": replace(SMALL, vocab_size=RANKED_SLICE + 301),
    **{name: HEADS[name] for name in ("dgf 2", "linear with bias", "eagle3", "eagle3 normed")},
    "mtp": MTP,
}
TREE = Budget(nodes=12, depth=5, width=3)


def weights_of(config: ModelConfig) -> Weights:
    return RandomWeights(config) if config.fusion is None else HeadWeights(config)


def built(config: ModelConfig, weights: Weights | None = None) -> Decoder:
    backend = shared_device().backend(WeightFormat.F32, "draft")
    return Decoder.build(config, weights or weights_of(config), backend)


@pytest.mark.release(keep=1, reason="every shape of a head")
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", MODELS)
def test_one_call_is_level_by_level(name: str, sampling: str) -> None:
    """Across borders of chunks, of slices of the vocabulary, and up to a full cache."""
    config = MODELS[name]
    Twins(config, built(config), tolerance=2e-5).run(SAMPLINGS[sampling], [20, 40], first=250)


@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_the_tree_is_the_cpus(sampling: str) -> None:
    """From the same weights: the same nodes, and scores within what families differ by."""
    config, params = MODELS["stand-alone"], SAMPLINGS[sampling]
    theirs = Decoder.build(config, weights_of(config), NativeBackend(Format.F32))
    ranking = Ranking(params.temperature, params.seed, share_noise=True)
    request = DraftRequest(range(5, 40), ranking, Budget(nodes=16, depth=7, width=4))
    got, expected = (model.draft(model.new_state(90), request) for model in (built(config), theirs))
    assert got.tokens == expected.tokens
    assert got.parents == expected.parents
    assert got.scores == pytest.approx(expected.scores, abs=2e-3)


@pytest.mark.parametrize("name", ["stand-alone", "eagle3 normed"])
def test_a_tree_is_one_list_of_work_and_one_wait(name: str) -> None:
    """However deep: ids and scores come back, and numbers go there at the beginning only."""
    config, gpu = MODELS[name], shared_device().gpu
    assert gpu is not None
    model, ranking = built(config), Ranking(0.7, 5, share_noise=True)
    given = None if config.fusion is None else random_features(config, 3)
    dispatched = []
    for depth in (1, 2, 5):
        state = model.new_state(64)
        request = DraftRequest([5, 6, 7], ranking, Budget(100, depth, TREE.width), given)
        model.draft(model.new_state(64), request)  # shapes of the kernels go there once
        gpu.counts = counts = DeviceWork()
        tree = model.draft(state, request)
        assert max(tree.depths) == depth
        assert (counts.submits, counts.waits) == (1, 1)
        assert counts.writes == (1 if given is None else 2)
        assert counts.read == 4 * depth * level_numbers(TREE.width)
        dispatched.append(sum(counts.dispatches.values()))
    of_a_level = dispatched[1] - dispatched[0]
    assert dispatched[2] - dispatched[1] == 3 * of_a_level
    ends = 1 + 1 + 2 + 2  # embedding; last norm; wanted rows and their logits; ranking, growing
    fusing = 4 if config.fusion else 1  # outputs, two norms, both side by side; a norm
    assert of_a_level <= ends + fusing + 9 + 10 * (config.num_layers - 1)


@pytest.mark.release(keep=1, reason="every draft")
@pytest.mark.parametrize("sampling", ["greedy", "sampled filtered"])
@pytest.mark.parametrize("name", [None, "dgf 2", "eagle3 reduced"])
def test_dovetail_writes_the_text_of_plain_decoding(name: str | None, sampling: str) -> None:
    """The draft's trees on the device, the target on the CPU."""
    params, prompt = EXACT[sampling], list(range(5, 25))
    target_config = small_target()
    target_weights = RandomWeights(target_config)
    target = Decoder.build(target_config, target_weights, NativeBackend(Format.Q8))
    expected = decode(target, prompt, params, context=128, max_tokens=20).tokens
    drafter: DecoderDrafter
    if name is None:  # the target's own weights, so that much is accepted
        draft = built(target_config, target_weights)
        drafter = StandaloneDrafter(draft, PrefixCache(draft, 128, 1 << 28))
    else:
        config = HEADS[name]
        assert config.fusion is not None
        target.feed(config.fusion, unlimited())
        draft = built(config, HeadWeights(config, target_weights))
        drafter = HeadDrafter(draft, PrefixCache(draft, 128, 1 << 28))
    found = decode(
        target, prompt, params, drafter=drafter, context=128, max_tokens=20,
        controller=RandomController(np.random.default_rng(2)),
    )  # fmt: skip
    assert found.tokens == expected
    assert sum(done.drafted for done in found.rounds) > 20
    assert name is not None or len(found.rounds) < len(expected) / 1.5


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("sampling", ["sampled filtered", "greedy with penalties", "sampled hot"])
def test_all_on_the_device_writes_the_text_of_plain_decoding(sampling: str) -> None:
    """Drafted, verified and drawn there."""
    gpu, config = shared_device().gpu, small_target()
    assert gpu is not None
    target, prompt, params = built(config), list(range(5, 25)), EXACT[sampling]
    expected = decode(target, prompt, params, context=128, max_tokens=20).tokens
    draft = built(config)
    controller = RandomController(np.random.default_rng(2))
    gpu.counts = counts = DeviceWork()
    found = decode(
        target, prompt, params, controller=controller, context=128, max_tokens=20,
        drafter=StandaloneDrafter(draft, PrefixCache(draft, 128, 1 << 28)),
    )  # fmt: skip
    assert found.tokens == expected
    assert len(found.rounds) < len(expected) / 1.5
    assert counts.dispatches["draw"] >= len(found.rounds)


def test_pending_tokens_of_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long sequences are computed: the host waits for the last pass only."""
    gpu, config = shared_device().gpu, MODELS["dgf 2"]
    assert gpu is not None
    request = DraftRequest(
        [5 + each % 40 for each in range(130)],
        Ranking(0, 0, share_noise=False),
        TREE,
        random_features(config, 130),
    )
    model = built(config)
    expected = model.draft(model.new_state(192), request)
    monkeypatch.setattr("engine.backend.webgpu.sizes.PARTS_BYTES", 1)
    model = built(config)
    state = model.new_state(192)
    gpu.counts = DeviceWork()
    assert model.draft(state, request) == expected
    assert (gpu.counts.submits, gpu.counts.waits) == (3, 1)


def test_where_a_tree_ends() -> None:
    model = built(SMALL)
    check_a_full_cache(model)
    check_floors(model)
    check_broken(built(SMALL, BrokenWeights(SMALL)))


def test_what_cannot_be_drafted() -> None:
    config = MODELS["eagle3"]
    model, cancel = built(config), CancelFlag()
    state, ranking = model.new_state(64), Ranking(0, 0, share_noise=False)
    for pending, features in (
        ([], random_features(config, 0)),
        ([5], np.ones((1, 72), np.float32)),
    ):
        with pytest.raises(ValueError, match="draft"):
            model.draft(state, DraftRequest(pending, ranking, TREE, features))
    cancel.set()
    given = random_features(config, 1)
    assert model.draft(state, DraftRequest([5], ranking, TREE, given), cancel).drafted == 0
    assert len(state) == 0
