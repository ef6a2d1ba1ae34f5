"""What a card would be asked to do, without one: copies, waits, launches, bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from fake_card import CountedKernel, FakeCard, fake_card
from full_models import RandomWeights
from head_models import HEADS, HeadWeights, random_features, small_target

from engine.backend.accelerator import device as devices
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.products import Products
from engine.backend.decoder import Decoder
from engine.backend.round import Budget, DraftRequest, Ranking
from engine.commands import WeightFormat
from engine.model.config import ModelConfig

RANKING = Ranking(0.7, 5, share_noise=True)
TREE = Budget(nodes=4, depth=2, width=2)


@pytest.fixture(autouse=True)
def _unrecorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: None)
    monkeypatch.setenv("DUOTAIL_KERNELS", "off")
    devices._measured.cache_clear()


@pytest.fixture(params=[True, False], ids=["with marks", "without"])
def card(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCard]:
    with fake_card(monkeypatch, marks=request.param) as made:
        yield made


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCard]:
    with fake_card(monkeypatch) as made:
        yield made


def built(config: ModelConfig) -> Decoder:
    weights = RandomWeights(config) if config.fusion is None else HeadWeights(config)
    device = TorchDevice("cuda:0")
    return Decoder.build(config, weights, device.backend(WeightFormat.F32, "target"))


def forward(model: Decoder) -> Callable[[], object]:
    """A chain and a tree, results looked at."""
    state = model.new_state(200)

    def work() -> None:
        for parents in (None, [-1, 0, 0]):
            found = model.forward(state, [5, 6, 7], parents)
            found.logits.sum()
            state.discard()

    return work


def draft(model: Decoder) -> Callable[[], object]:
    state, config = model.new_state(200), model.config
    features = None if config.fusion is None else random_features(config, 3)
    request = DraftRequest([5, 6, 7], RANKING, TREE, features)
    (segment,) = model.segments
    return lambda: segment.draft(state.caches[0], 0, 200, request)


@pytest.mark.parametrize("work", [forward, draft])
@pytest.mark.usefixtures("card")
def test_nothing_is_read_before_it_arrives(
    work: Callable[[Decoder], Callable[[], object]],
) -> None:
    """Nor written while the card may still read it; several rounds, so that memory is used anew."""
    again = work(built(small_target(1)))
    for _ in range(3):
        again()


@pytest.mark.usefixtures("card")
def test_a_head_as_well() -> None:
    again = draft(built(HEADS["dgf 1"]))
    for _ in range(3):
        again()


def test_a_forward_waits_once_and_sleeps(nvidia: FakeCard) -> None:
    """Another lane may compute on the core that the wait leaves free."""
    again = forward(built(small_target(1)))
    again()
    with nvidia.count() as seen:
        again()
    assert (seen.waits, seen.spins, seen.blocking) == (2, 0, [])


def test_a_draft_waits_once_and_sleeps(nvidia: FakeCard) -> None:
    again = draft(built(small_target(1)))
    again()
    with nvidia.count() as seen:
        again()
    assert (seen.waits, seen.spins, seen.blocking) == (1, 0, [])


def test_a_committed_path_is_moved_without_a_wait(nvidia: FakeCard) -> None:
    state = built(small_target(1)).new_state(200)
    with nvidia.count() as seen:
        state.adopt([5, 6, 7], [-1, -1, 1])
        state.commit([1, 2])
    assert seen.launches
    assert (seen.waits, seen.blocking) == (0, [])
    assert np.array_equal(state.tokens, [6, 7])


# -- with kernels -----------------------------------------------------------------------------

KERNELS = {
    "multiply": ("make_ready", "sum_stretches", "add_stretches", "widen"),
    "attend": ("attend_stretches", "attend_tails", "combine"),
}


@pytest.fixture
def kernels(nvidia: FakeCard, monkeypatch: pytest.MonkeyPatch) -> FakeCard:
    """A card with kernels, which are counted in the place of being started."""
    pytest.importorskip("triton", reason="Triton is not installed")
    monkeypatch.delenv("DUOTAIL_KERNELS")
    for module, names in KERNELS.items():
        found = import_module(f"engine.backend.accelerator.kernels.{module}")
        for name in names:
            monkeypatch.setattr(found, name, CountedKernel(nvidia, name))
    monkeypatch.setattr(Products, "_trouble", lambda *_: "")
    monkeypatch.setattr(Products, "_trouble_attending", lambda *_: "")
    return nvidia


def dense(layers: int) -> ModelConfig:
    small = small_target(layers)
    block = replace(small.typical, heads=8, head_dim=64, inner=1024)
    return replace(small, hidden_size=512, blocks=(block,) * layers)


@pytest.mark.parametrize(("rows", "most"), [(1, 42), (256, 48)])
def test_launches_and_bytes_of_a_block(rows: int, most: int, kernels: FakeCard) -> None:
    """A block's weights are read once and as they are stored, whatever the rows."""
    counts, read, held = [], [], []
    for layers in (1, 2):
        backend = TorchDevice("cuda:0").backend(WeightFormat.Q4, "target")
        model = Decoder.build(dense(layers), RandomWeights(dense(layers)), backend)
        state = model.new_state(300)
        with kernels.count() as seen:
            model.forward(state, [5] * rows, logit_rows=(0,))
        assert (seen.waits, seen.spins, seen.blocking) == (1, 0, [])
        counts.append(len(seen.launches))
        weights = [one.nbytes for one in seen.launches if one.name in ("sum_stretches", "widen")]
        read.append(sum(weights))
        held.append(model.weight_bytes)
    assert counts[1] - counts[0] <= most
    assert 0.95 <= (read[1] - read[0]) / (held[1] - held[0]) <= 1.05
