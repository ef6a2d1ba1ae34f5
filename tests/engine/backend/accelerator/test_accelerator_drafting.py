"""Trees drafted on a device, on torch's "cpu": those that one forward per level gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
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
from engine.backend.sequence import SequenceState
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

CONTEXT = 330
SAMPLINGS = {
    "greedy": SamplingParams(),
    "sampled": SamplingParams(temperature=0.8, seed=2**63 + 17),
}
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


@dataclass
class Twins:
    """The same draft twice, with the same past: in one call, and level by level."""

    config: ModelConfig

    def __post_init__(self) -> None:
        self.model = built(self.config)
        self.states = [self.model.new_state(CONTEXT) for _ in range(2)]
        self.skipped = 0 if self.config.fusion is None else 1
        self.features: Floats | None = None
        if self.config.fusion is not None:
            self.features = random_features(self.config, CONTEXT)

    def draft(self, tokens: list[int], sampling: SamplingParams, budget: Budget) -> Any:
        """Both trees, as (tokens, parents, scores, staged tokens, their parents)."""
        one, many = self.states
        pending = tokens[self.skipped + len(one) :]
        given = None
        if self.features is not None:
            given = self.features[len(one) : len(one) + len(pending)]
        sampler = Sampler(sampling)
        drafted = self.model.draft(one, DraftRequest(pending, sampler.ranking, budget, given))
        many.discard()
        grown = self.model.grow(many, DraftRequest(pending, sampler.ranking, budget, given))
        return (
            (drafted.tokens, drafted.parents, drafted.scores, one),
            (grown.tokens, grown.parents, grown.scores, many),
        )

    def same(self, one: Any, many: Any) -> None:
        assert one[0] == many[0]
        assert one[1] == many[1]
        assert one[2] == pytest.approx(many[2], abs=2e-3)
        states: list[SequenceState] = [one[3], many[3]]
        assert list(states[0].staged) == list(states[1].staged)
        assert list(states[0].parents) == list(states[1].parents)
        if self.features is None:  # a head's staged keys are never looked at again
            behind = [len(state.staged) - 1 for state in states]
            if states[0].slots - len(states[0]) - len(states[0].staged) < 1:
                return
            logits = []
            for state, parent in zip(states, behind, strict=True):
                logits.append(self.model.forward(state, [5], [parent]).logits.copy())
                state._staged.pop()
                state._parents.pop()
            assert np.allclose(*logits, atol=2e-3)


def budgets(rng: np.random.Generator) -> Budget:
    return Budget(
        nodes=int(rng.integers(1, 40)),
        depth=int(rng.integers(1, 6)),
        width=int(rng.integers(1, 6)),
        floor=float(rng.choice([0.0, 0.0, 0.2])),
    )


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
    twins, rng = Twins(MODELS[name]), np.random.default_rng(7)
    tokens = rng.integers(3, 323, 220).tolist()
    fixed = Budget(nodes=12, depth=4, width=3)
    deepest = 0
    while len(tokens) - twins.skipped <= CONTEXT:
        budget = fixed if rng.random() < 0.6 else budgets(rng)
        one, many = twins.draft(tokens, SAMPLINGS[sampling], budget)
        twins.same(one, many)
        deepest = max(deepest, len(set(one[1])))
        for state in twins.states:
            state.discard()
        tokens += rng.integers(3, 323, int(rng.choice([1, 2, 3, 9]))).tolist()
    assert deepest > 3, "hardly a tree"
    assert recorder.replays > 2 * len(recorder.tapes) > 10


def test_a_full_cache_ends_the_tree() -> None:
    config = MODELS["stand-alone"]
    model = built(config)
    state = model.new_state(10)
    room = Budget(nodes=500, depth=16, width=5)
    tree = model.draft(state, DraftRequest([5] * 10, Sampler(SamplingParams()).ranking, room))
    assert len(state.staged) == MAX_TREE // 5 * 5
    assert max(depths(tree.parents)) <= MAX_TREE // 5 + 1


def depths(parents: tuple[int, ...]) -> list[int]:
    found: list[int] = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


def test_levels_below_the_floor_do_not_count() -> None:
    model = built(MODELS["stand-alone"])
    deep = Budget(nodes=100, depth=6, width=2, floor=0.0)
    flat = Budget(nodes=100, depth=6, width=2, floor=0.9)
    ranking = Sampler(SamplingParams()).ranking
    state = model.new_state(64)
    assert max(depths(model.draft(state, DraftRequest([5, 6], ranking, deep)).parents)) == 6
    state = model.new_state(64)
    tree = model.draft(state, DraftRequest([5, 6], ranking, flat))
    assert max(depths(tree.parents)) == 1
    assert list(state.staged) == []


def test_logits_that_are_no_numbers_draft_nothing() -> None:
    class Broken(RandomWeights):
        def float32(self, name: str) -> Floats:
            found = RandomWeights.float32(self, name)
            return np.full_like(found, np.nan) if name == "model.norm.weight" else found

    config = MODELS["stand-alone"]
    backend = TorchDevice("cpu").backend(WeightFormat.F32, "draft")
    model = Decoder.build(config, Broken(config), backend)
    state = model.new_state(64)
    tree = model.draft(
        state, DraftRequest([5, 6], Sampler(SamplingParams()).ranking, Budget(9, 3, 3))
    )
    assert tree.tokens == (6,)
    assert list(state.staged) == []


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
