"""Greedy verification draws on the device: what the host draws from the logits, and no logits."""

from __future__ import annotations

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from on_adapter import on_adapter, shared_device

from engine.backend.native.sampling import NativeDraws
from engine.backend.round import VerifyRequest
from engine.backend.segment import Segment
from engine.backend.webgpu.drawing import first_children, walked
from engine.backend.webgpu.gpu import DeviceWork
from engine.commands import WeightFormat
from engine.errors import InvalidLogits
from engine.request import SamplingParams


def test_the_device_draws_what_the_host_draws() -> None:
    model = on_adapter(FOLDER_TARGET, WeightFormat.Q8)
    segment, gpu = model.segments[0], shared_device().gpu
    assert gpu is not None
    vocab, rng = model.config.vocab_size, np.random.default_rng(2)
    prompt = rng.integers(5, vocab, 12).tolist()
    state = model.new_state(128)
    model.forward(state, prompt[:-1], logit_rows=())
    state.commit(range(11))
    best = prompt[-1:]
    for _ in range(4):
        logits = model.forward(state, best[-1:]).logits[0]
        state.commit([0])
        best.append(int(logits.argmax()))
    state.crop(11)
    # The path among siblings, and a child of its last node that is not the likeliest.
    wrong = (best[-1] + 1) % vocab
    nodes = [best[0], 7, best[1], 9, best[2], best[3], wrong]
    parents = [-1, 0, 0, 2, 2, 4, 5]
    draws = NativeDraws(SamplingParams(), vocab)
    request = VerifyRequest(nodes, parents, prompt, limit=10)
    expected, _ = Segment.verify(segment, state.caches[0], 11, draws, request)
    gpu.counts = DeviceWork()
    got, _ = segment.verify(state.caches[0], 11, draws, request)
    assert got == expected
    assert got.tokens == tuple(best[1:])
    assert got.chances == pytest.approx(expected.chances, rel=1e-4)
    assert got.refused == pytest.approx(expected.refused, rel=1e-3)
    assert (gpu.counts.read, gpu.counts.waits) == (16 * len(nodes), 1)


def test_a_walk_ends_where_it_should() -> None:
    request = VerifyRequest([3, 4, 5, 6], [-1, 0, 0, 1], [3], limit=10, stop_ids=(6,))
    assert first_children(request) == [4, 6, -1, -1]
    drawn = np.array([[4, 0, 0, 0], [6, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0]], dtype=np.uint32)
    stopped = walked(request, drawn)
    assert (stopped.path, stopped.tokens, stopped.accepted) == ((0, 1), (4, 6), 2)
    drawn[1, 3] = 1
    with pytest.raises(InvalidLogits):
        walked(request, drawn)
