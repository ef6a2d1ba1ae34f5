"""Forwards that are recorded and replayed, with a tape in the place of CUDA graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
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
from engine.backend.accelerator.driver import Driver
from engine.backend.accelerator.graphs import CudaRecorder, Graphs
from engine.backend.accelerator.memory import (
    MOST_RECORDINGS,
    DeviceCache,
    Recordings,
    Workspace,
)
from engine.backend.decoder import Decoder
from engine.backend.ledger import Account, Ledger
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
    """A card whose driver does not record: the given attempts, counted from 1, or none at all."""

    def __init__(self, attempts: Collection[int] | None = None) -> None:
        self.asked, self._attempts, self._tape = 0, attempts, TapeRecorder()

    def record(self, work: Callable[[], None]) -> Callable[[], None]:
        self.asked += 1
        if self._attempts is None or self.asked in self._attempts:
            raise RuntimeError("operation not permitted when stream is capturing")
        return self._tape.record(work)


def test_what_cannot_be_recorded_is_done_the_usual_way(
    llama: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = a_while(accelerated(llama))
    failing = Failing()
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: failing)
    same(a_while(accelerated(llama)), expected)
    assert failing.asked == 3
    assert [record.message for record in caplog.records if "not recorded" in record.message]


def test_a_recording_that_fails_is_tried_again(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that were made stay in use when no more are tried."""
    failing = Failing({1, 2, 4, 5, 6})
    monkeypatch.setattr(devices, "recorder_for", lambda _driver: failing)
    model = accelerated(llama)
    state = model.new_state(64)

    def use(count: int) -> None:
        model.forward(state, [5] * count)
        state.discard()

    for _ in range(6):
        use(3)
    assert (failing.asked, len(recordings(state))) == (3, 1)
    for _ in range(6):
        use(5)
    assert (failing.asked, len(recordings(state))) == (6, 1)
    before = failing._tape.replays
    use(3)
    assert failing._tape.replays == before + 1


def test_what_replays_has_memory_of_its_own(recorder: TapeRecorder) -> None:
    """The driver's, which torch does not count."""
    ledger, driver, used = Ledger("cuda:0", "A card"), Driver("cpu"), iter((100, 107, 200, 205))
    driver.free_and_total = lambda: (1000 - next(used), 1000)  # type: ignore[method-assign]
    graphs = Graphs(driver, Workspace(Account(ledger, "device")), recorder)
    kept = Recordings()
    for key in ("one", "other"):
        for _ in range(2):
            graphs.run(kept, key, lambda: None)
    assert ledger.held == 7 + 5


class Capturing:
    """torch.cuda where graphs, streams and pools are concerned.

    A pool that has had recordings cannot be used again after the last of them. A capture that fails
    does not give its stream back.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current, self.pools = "usual", 0
        self.dead: set[int] = set()
        self.used: dict[int, int] = {}
        for name in ("graph", "stream", "CUDAGraph"):
            monkeypatch.setattr(torch.cuda, name, getattr(self, name))
        monkeypatch.setattr(torch.cuda, "Stream", lambda _device: "capture")
        monkeypatch.setattr(torch.cuda, "device", lambda _device: nullcontext())
        monkeypatch.setattr(torch.cuda, "current_stream", lambda _device=None: self.current)
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", self.handle)

    def handle(self) -> int:
        self.pools += 1
        return self.pools

    def CUDAGraph(self) -> Any:  # noqa: N802
        return _Graph(self)

    @contextmanager
    def stream(self, stream: str) -> Iterator[None]:
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    @contextmanager
    def graph(self, graph: Any, *, pool: int, stream: str, **_mode: str) -> Iterator[None]:
        assert pool not in self.dead, "no such pool"
        graph.taken = pool
        self.used[pool] = self.used.get(pool, 0) + 1
        before, self.current = self.current, stream
        yield  # and where that raises, so does the end of the capture
        self.current = before


class _Graph:
    def __init__(self, cuda: Capturing) -> None:
        self._cuda, self.taken = cuda, 0

    def replay(self) -> None:
        """As what replays does, it keeps the recording alive."""

    def pool(self) -> int:
        return self.taken

    def __del__(self) -> None:
        if self.taken:
            self._cuda.used[self.taken] -= 1
            if not self._cuda.used[self.taken]:
                self._cuda.dead.add(self.taken)


def test_captures_share_a_living_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Capturing(monkeypatch)
    recorder = CudaRecorder(torch.device("cuda:0"))
    kept = [recorder.record(lambda: None) for _ in range(3)]
    assert cuda.pools == 1
    del kept[:2]
    kept.append(recorder.record(lambda: None))
    assert cuda.pools == 1
    kept.clear()
    recorder.record(lambda: None)
    assert cuda.pools == 2, "the first one ended with its last recording"


def test_a_failed_capture_gives_the_stream_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = Capturing(monkeypatch)

    def work() -> None:
        raise RuntimeError("out of luck")

    with pytest.raises(RuntimeError, match="luck"):
        CudaRecorder(torch.device("cuda:0")).record(work)
    assert cuda.current == "usual"
