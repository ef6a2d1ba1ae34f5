"""Recorded forwards and drafted trees on a real device."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerated import accelerated
from comparing import apart
from head_models import HEADS, HeadWeights, random_features
from tiny_models import write_model

from engine.backend import noise
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.tree_state import gumbel, round_keys, words
from engine.backend.decoder import Decoder
from engine.backend.ledger import Purpose
from engine.backend.round import Budget, DraftRequest
from engine.commands import WeightFormat
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

pytestmark = pytest.mark.gpu


@pytest.fixture
def device(name: str) -> Iterator[TorchDevice]:
    opened = TorchDevice(name)
    yield opened
    gc.collect()
    opened.close()


def test_the_noise_is_the_cpus(name: str) -> None:
    seed, count = 2**63 + 17, 5000
    keys = np.array(round_keys(seed), dtype=np.uint32).view(np.int32)
    given = torch.from_numpy(keys).to(name), torch.tensor([0, 77]).to(name)
    ids = np.arange(count, dtype=np.int64)
    bits, found = words(*given, count).cpu().numpy(), gumbel(*given, count).cpu().numpy()
    for row, position in enumerate((0, 77)):
        assert np.array_equal(bits[row], noise.words(seed, position, ids))
        assert np.allclose(found[row], noise.gumbel(seed, position, ids), atol=1e-5)


def test_replays_are_what_is_computed_the_usual_way(
    tmp_path: Path, device: TorchDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert device._graphs is not None
    if device._graphs._recorder is None:
        pytest.skip("nothing is recorded there")
    model = accelerated(write_model(tmp_path), WeightFormat.Q4, device)
    rng, rows = np.random.default_rng(5), []
    work: list[tuple[list[int], list[int]]] = []
    for _ in range(40):
        count = int(rng.integers(1, 17))
        parents = [-1, *(int(rng.integers(-1, node)) for node in range(1, count))]
        work.append((rng.integers(3, 320, count).tolist(), parents))
    for recorder in (device._graphs._recorder, None):
        monkeypatch.setattr(device._graphs, "_recorder", recorder)
        state, found = model.new_state(400), []
        for tokens, parents in work:
            found.append(model.forward(state, tokens, parents).logits.copy())
            path = [0]
            state.commit(path)
        rows.append(found)
        if recorder is not None:
            assert len(state.caches[0].recordings) > 3, "nothing was recorded"  # type: ignore[attr-defined]
    for got, expected in zip(*rows, strict=True):
        assert apart(got, expected) < 1e-3


@pytest.mark.parametrize("sampling", [SamplingParams(), SamplingParams(temperature=0.8, seed=9)])
@pytest.mark.parametrize("kind", ["dgf 2", "linear with bias", "eagle3 normed"])
def test_a_tree_is_the_one_drafted_level_by_level(
    kind: str, sampling: SamplingParams, device: TorchDevice
) -> None:
    """Most of its nodes: keys are summed up in another order, and near ties may turn."""
    config = HEADS[kind]
    backend = device.backend(WeightFormat.BF16, "draft")
    model = Decoder.build(config, HeadWeights(config), backend)
    features = random_features(config, 300)
    states = model.new_state(300), model.new_state(300)
    rng, budget = np.random.default_rng(5), Budget(nodes=15, depth=7, width=10)
    tokens: list[int] = [1, *rng.integers(3, 323, 40).tolist()]
    same = total = 0
    for _ in range(12):
        sampler, start = Sampler(sampling), len(states[0])
        pending = tokens[1 + start :]
        given = features[start : start + len(pending)]
        one = model.draft(states[0], DraftRequest(pending, sampler.ranking, budget, given))
        many = model.grow(states[1], DraftRequest(pending, sampler.ranking, budget, given))
        same += len(_paths(one) & _paths(many))
        total += len(many.tokens)
        for state in states:
            state.discard()
        tokens += rng.integers(3, 323, 3).tolist()
    assert same > 0.9 * total


def _paths(tree: Any) -> set[tuple[int, ...]]:
    found: list[tuple[int, ...]] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        found.append((token,) if parent < 0 else (*found[parent], token))
    return set(found)


def test_recordings_stay_within_what_is_entered(tmp_path: Path, device: TorchDevice) -> None:
    model = accelerated(write_model(tmp_path), WeightFormat.Q4, device)
    state = model.new_state(600)
    for count in (1, 2, 4, 8, 16, 32):
        for _ in range(3):
            model.forward(state, [5] * count)
            state.commit(range(count))
    lines = device.ledger.lines()
    held = sum(line.nbytes for line in lines if line.purpose != Purpose.RUNTIME)
    assert device.counters().allocated <= held
    assert device.counters().reserved <= device.ledger.held
