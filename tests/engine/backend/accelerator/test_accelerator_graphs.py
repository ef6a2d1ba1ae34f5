"""Forwards that are recorded and replayed, with a tape in the place of CUDA graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerated import accelerated
from full_models import RandomWeights, full_config
from head_models import HEADS, HeadWeights, random_features
from tape import TapeRecorder
from tiny_models import write_model

from engine.backend.accelerator import device as devices
from engine.backend.accelerator.device import TorchDevice
from engine.backend.accelerator.memory import MOST_RECORDINGS, DeviceCache, Recordings
from engine.backend.decoder import Decoder
from engine.backend.sequence import SequenceState
from engine.commands import WeightFormat


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> TapeRecorder:
    made = TapeRecorder()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: made)
    return made


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("llama"))


def recordings(state: SequenceState) -> Recordings:
    (cache,) = state.caches
    assert isinstance(cache, DeviceCache)
    return cache.recordings


def a_while(model: Decoder, features: Any = None) -> list[np.ndarray]:
    """Chains and trees of many shapes, each several times, up to a growing number of chunks."""
    rng, state, rows = np.random.default_rng(3), model.new_state(700), []

    def given(count: int) -> Any:
        return None if features is None else features[rng.integers(0, len(features), count)]

    for turn in range(14):
        count = int(rng.choice([1, 3, 4, 7, 20, 50]))
        if turn % 5 == 4:
            count = 90
        tokens = rng.integers(3, 320, count).tolist()
        rows.append(model.forward(state, tokens, features=given(count)).logits.copy())
        state.commit(range(count))
        nodes = int(rng.integers(2, 9))
        parents = [-1, *(int(rng.integers(-1, node)) for node in range(1, nodes))]
        found = model.forward(
            state, [int(t) for t in rng.integers(3, 320, nodes)], parents, features=given(nodes)
        )
        rows += [found.logits.copy(), found.hidden.copy()]
        state.discard()
    return rows


def same(got: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.release(keep=1, reason="every model")
@pytest.mark.parametrize("name", ["every feature", "head"])
def test_replays_are_what_is_computed_the_usual_way(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = full_config() if name == "every feature" else HEADS["eagle3 normed"]
    weights = RandomWeights(config) if config.fusion is None else HeadWeights(config)
    features = None if config.fusion is None else random_features(config, 100)

    def built() -> Decoder:
        return Decoder.build(config, weights, TorchDevice("cpu").backend(WeightFormat.F32, "t"))

    expected = a_while(built(), features)
    recorder = TapeRecorder()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: recorder)
    same(a_while(built(), features), expected)
    assert len(recorder.tapes) >= 5
    assert recorder.replays > len(recorder.tapes)


def test_a_shape_is_recorded_at_its_second_use(llama: Path, recorder: TapeRecorder) -> None:
    model = accelerated(llama)
    state = model.new_state(300)
    for used in range(4):
        model.forward(state, [5, 6, 7])
        state.commit(range(3))
        assert len(recorder.tapes) == (1 if used else 0)
    assert recorder.replays == 3
    model.forward(state, [5, 6, 7], logit_rows=(2,))
    assert len(recorder.tapes) == 1, "another number of logits is another shape"
    model.forward(model.new_state(300), [5, 6, 7])
    assert len(recorder.tapes) == 1, "so is another cache"
    model.new_state(900)
    model.forward(state, [5, 6, 7])
    model.forward(state, [5, 6, 7])
    assert len(recorder.tapes) == 2, "and so are rotations that have moved"


def test_recordings_go_with_their_cache(llama: Path, recorder: TapeRecorder) -> None:
    model = accelerated(llama)
    state = model.new_state(64)
    for _ in range(2):
        model.forward(state, [5])
        state.commit([0])
    assert len(recordings(state)) == 1
    gc.collect()
    gc.disable()
    try:
        cache = recordings(state)
        del state
        assert gc.get_referrers(cache) in ([], [locals()]), "nobody else holds them"
    finally:
        gc.enable()


def test_the_oldest_recording_goes() -> None:
    kept, done = Recordings(), []

    def replaying(number: int) -> Callable[[], None]:
        return lambda: done.append(number)

    for number in range(MOST_RECORDINGS):
        kept.keep(number, replaying(number))
    first = kept.find(0)
    assert first is not None
    kept.keep("another", replaying(MOST_RECORDINGS))
    assert kept.find(1) is None
    assert kept.find(0) is first


class Failing:
    """A card whose driver will not record."""

    def __init__(self) -> None:
        self.asked = 0

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        del work
        self.asked += 1
        raise RuntimeError("operation not permitted when stream is capturing")


def test_what_cannot_be_recorded_is_done_the_usual_way(
    llama: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = a_while(accelerated(llama))
    failing = Failing()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: failing)
    same(a_while(accelerated(llama)), expected)
    assert failing.asked == 1
    assert [record.message for record in caplog.records if "not recorded" in record.message]
