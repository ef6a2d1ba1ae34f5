"""Trees drafted on a device, on torch's "cpu": those that one forward per level gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from draft_twins import (
    SAMPLINGS,
    BrokenWeights,
    Twins,
    check_a_full_cache,
    check_broken,
    check_floors,
    depths,
)
from full_models import RandomWeights, full_config
from head_models import HEADS, HeadWeights, random_features, small_target
from tape import TapeRecorder

from engine.backend import noise
from engine.backend.accelerator import device as devices
from engine.backend.accelerator import memory
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.driver import DeviceMark, Driver
from engine.backend.accelerator.memory import DeviceCache
from engine.backend.accelerator.sizes import drafting_bytes, segment_bytes
from engine.backend.accelerator.tree_state import TreeState, gumbel, round_keys, words
from engine.backend.decoder import MAX_TREE, Decoder
from engine.backend.drafted_levels import DRAFT_LEVELS
from engine.backend.ledger import Purpose
from engine.backend.round import Budget, DraftRequest, Ranking
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

DENSE = tuple(replace(block, experts=None) for block in full_config().blocks)
"""Windows of all kinds; a choice of experts that turns makes another text of any rounding."""
MODELS: dict[str, ModelConfig] = {
    "stand-alone": small_target(2),
    "windows": replace(full_config("silu"), blocks=DENSE),
    **{name: HEADS[name] for name in ("dgf 2", "linear with bias", "eagle3 normed")},
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def built(config: ModelConfig, device: str = "cpu") -> Decoder:
    weights = RandomWeights(config) if config.fusion is None else HeadWeights(config)
    return Decoder.build(config, weights, TorchDevice(device).backend(WeightFormat.F32, "draft"))


@pytest.mark.release(keep=1, reason="every shape of a head, interpreted")
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("name", MODELS)
def test_one_call_is_level_by_level(
    name: str, sampling: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Across borders of chunks and up to a full cache, recorded and replayed.

    Keys are fp32 here: the two sum them up in different orders, and fp16 would make more of it,
    as heads do with every level that goes by their own outputs.
    """
    monkeypatch.setattr(memory, "NUMBER", torch.float32)
    recorder = TapeRecorder()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: recorder)
    config = MODELS[name]
    Twins(config, built(config)).run(SAMPLINGS[sampling], [1, 2, 3, 9])
    assert recorder.replays > 2 * len(recorder.tapes) > 10


def test_a_full_cache_ends_the_tree() -> None:
    check_a_full_cache(built(MODELS["stand-alone"]))


def test_levels_below_the_floor_do_not_count() -> None:
    check_floors(built(MODELS["stand-alone"]))


def test_logits_that_are_no_numbers_draft_nothing() -> None:
    config = MODELS["stand-alone"]
    backend = TorchDevice("cpu").backend(WeightFormat.F32, "draft")
    check_broken(Decoder.build(config, BrokenWeights(config), backend))


@pytest.mark.release(reason="a whole head, interpreted")
def test_drafting_asks_the_device_nothing() -> None:
    """But for its result, at the end: "meta" has no numbers that anybody could ask for."""
    for config in MODELS.values():
        model = built(config, "meta")
        features = None if config.fusion is None else random_features(config, 3)
        ranking = Ranking(0.7, 5, share_noise=True)
        with pytest.raises(NotImplementedError, match="meta"):  # the copy of the result
            model.draft(
                model.new_state(64), DraftRequest([5, 6, 7], ranking, Budget(9, 4, 3), features)
            )


def test_a_round_waits_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for marks that were passed long ago, of memory that the device has read."""
    waited: list[DeviceMark] = []

    def wait(mark: DeviceMark) -> None:
        waited.append(mark)

    model = built(MODELS["stand-alone"])
    state = model.new_state(64)
    ranking, budget = Sampler(SamplingParams()).ranking, Budget(9, 4, 3)
    model.draft(state, DraftRequest([5, 6], ranking, budget))
    monkeypatch.setattr(DeviceMark, "wait", wait)
    monkeypatch.setattr(Driver, "wait", lambda _own: pytest.fail("waits for everything"))
    model.draft(state, DraftRequest([7, 8], ranking, budget))
    segment: Any = model.segments[0]
    (table,) = segment._drafting._tables.values()
    assert waited.count(table.arrived) == 1
    assert len(waited) == 1 + 2, "the inputs' integers and the tree's, read two rounds ago"


def test_what_a_draft_keeps_is_what_is_planned() -> None:
    config = MODELS["dgf 2"]
    device = TorchDevice("cpu")
    model = Decoder.build(config, HeadWeights(config), device.backend(WeightFormat.F32, "draft"))
    state = model.new_state(100)
    ranking, features = Ranking(0.7, 5, share_noise=True), random_features(config, 2)
    model.draft(state, DraftRequest([5, 6], ranking, Budget(40, 5, 10), features))
    held = {line.purpose: line.nbytes for line in device.ledger.lines() if line.owner == "draft"}
    planned = segment_bytes(config, range(2), 100 + MAX_TREE) + drafting_bytes(config)
    assert held[Purpose.WORKSPACE] == planned
    board = TreeState(Driver("cpu"), 10, config.hidden_size)
    board.take_noise(Driver("cpu"), config.head_rows)
    tensors = [found for found in vars(board).values() if isinstance(found, torch.Tensor)]
    kept = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage() for tensor in tensors}
    assert sum(storage.nbytes() for storage in kept.values()) <= drafting_bytes(config)


def test_a_cache_of_another_backend() -> None:
    model = built(MODELS["stand-alone"])
    (segment,) = model.segments
    with pytest.raises(TypeError):
        segment.draft(
            object(),  # type: ignore[arg-type]
            0, 9, DraftRequest([5], Sampler(SamplingParams()).ranking, Budget(1, 1, 1)),
        )  # fmt: skip
    assert isinstance(model.new_state(8).caches[0], DeviceCache)


# -- noise -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2**32 - 1, 2**63 + 17])
def test_the_noise_is_the_cpus(seed: int) -> None:
    keys = torch.from_numpy(np.array(round_keys(seed), dtype=np.uint32).view(np.int32))
    positions = [0, 1, 77, 2**31 - 1]
    given = torch.tensor(positions)
    for count in (1, 64, 1000):
        ids = np.arange(count, dtype=np.int64)
        bits, found = words(keys, given, count), gumbel(keys, given, count)
        for row, position in enumerate(positions):
            assert np.array_equal(bits[row].numpy(), noise.words(seed, position, ids))
            assert np.allclose(found[row], noise.gumbel(seed, position, ids), atol=3e-6, rtol=3e-7)


def test_the_noise_of_the_rarest_words() -> None:
    """Where the unit interval is short: its first and last words."""
    from engine.backend.accelerator import tree_state

    rare = np.array([0, 1, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1], dtype=np.int64)
    uniform = (rare + 0.5) * 2.0**-32
    expected = -noise.log(-noise.log(uniform))
    found = tree_state.of_words(torch.from_numpy(rare)).numpy()
    assert np.allclose(found, expected, atol=3e-6, rtol=3e-7)


def test_a_level_is_a_number_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """One recording of a level serves all of them, whatever depth is asked for."""
    recorder = TapeRecorder()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: recorder)
    model = built(MODELS["stand-alone"])
    state = model.new_state(64)
    ranking = Sampler(SamplingParams()).ranking
    for depth in (3, 5, 9, DRAFT_LEVELS):
        tree = model.draft(state, DraftRequest([5], ranking, Budget(90, depth, 2)))
        assert max(depths(tree.parents)) == depth
    assert len(recorder.tapes) == 2, "the catch-up, a level"
