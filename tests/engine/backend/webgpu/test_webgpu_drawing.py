"""Verification draws on the device what the host draws from the logits: none of them come back."""

from __future__ import annotations

import numpy as np
import pytest
from folder_models import FOLDER_TARGET
from on_adapter import on_adapter, shared_device

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import VerifyRequest
from engine.backend.segment import Segment
from engine.backend.webgpu.drawing import NONE, DeviceDraws, walked
from engine.backend.webgpu.gpu import DeviceWork
from engine.backend.webgpu.sizes import DRAW_SETTINGS, LOGIT_ROWS, TICKS_BYTES
from engine.commands import WeightFormat
from engine.errors import InvalidLogits
from engine.model.weights.readable import Floats
from engine.request import SamplingParams

DRAWN_THERE = {
    "greedy": SamplingParams(),
    "warm": SamplingParams(temperature=0.7, seed=5),
    "hot": SamplingParams(temperature=1.3, seed=2**40 + 1),
    "with min-p": SamplingParams(temperature=1, min_p=0.05, seed=77),
    "top-k": SamplingParams(temperature=0.9, top_k=20, seed=3),
    "top-p": SamplingParams(temperature=0.8, top_p=0.9, seed=4),
    "all filters": SamplingParams(temperature=1.2, top_k=40, top_p=0.8, min_p=0.01, seed=6),
    "greedy with penalties": SamplingParams(repetition_penalty=1.3, frequency_penalty=0.4),
    "all of it": SamplingParams(
        temperature=0.9,
        top_k=50,
        top_p=0.9,
        seed=7,
        repetition_penalty=1.1,
        presence_penalty=0.5,
        frequency_penalty=0.3,
    ),
}


@pytest.fixture(scope="module")
def model() -> Decoder:
    return on_adapter(FOLDER_TARGET, WeightFormat.Q8)


@pytest.mark.release(keep=1, reason="every temperature")
@pytest.mark.parametrize("name", DRAWN_THERE)
def test_the_device_draws_what_the_host_draws(name: str, model: Decoder) -> None:
    segment, gpu = model.segments[0], shared_device().gpu
    assert gpu is not None
    vocab, rng = model.config.vocab_size, np.random.default_rng(2)
    prompt = rng.integers(5, vocab, 12).tolist()
    state = model.new_state(128)
    model.forward(state, prompt[:-1], logit_rows=())
    state.commit(range(11))
    draws, best = NativeDraws(DRAWN_THERE[name], vocab), prompt[-1:]
    for _ in range(4):
        logits = model.forward(state, best[-1:]).logits[0]
        state.commit([0])
        best.append(draws.draw(logits, [*prompt, *best[1:]]))
    state.crop(11)
    # The path among siblings, and a child of its last node that is not drawn.
    other = [(token + 1) % vocab for token in best]
    nodes = [best[0], other[1], best[1], other[2], best[2], best[3], other[4]]
    parents = [-1, 0, 0, 2, 2, 4, 5]
    request = VerifyRequest(nodes, parents, prompt, limit=10)
    expected, _ = Segment.verify(segment, state.caches[0], 11, draws, request)
    gpu.counts = DeviceWork()
    got, _ = segment.verify(state.caches[0], 11, draws, request)
    assert got == expected
    assert got.tokens == tuple(best[1:])
    assert got.chances == pytest.approx(expected.chances, rel=1e-4)
    assert got.refused == pytest.approx(expected.refused, rel=1e-3)
    assert (gpu.counts.read, gpu.counts.waits) == (16 * len(nodes) + TICKS_BYTES, 1)


def test_penalties_see_the_path_in_another_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of 20 nodes, 16 rows at a time as for long sequences, accepted to its end."""
    monkeypatch.setattr("engine.backend.webgpu.sizes.PASS_ROWS", 16)
    model = on_adapter(FOLDER_TARGET, WeightFormat.Q8)
    params = SamplingParams(temperature=0.8, seed=3, presence_penalty=1.5, frequency_penalty=1)
    draws, tokens, state = NativeDraws(params, model.config.vocab_size, 1), [7], model.new_state(64)
    for _ in range(20):
        logits = model.forward(state, tokens[-1:]).logits[0]
        state.commit([0])
        tokens.append(draws.draw(logits, tokens))
    state.crop(0)
    request = VerifyRequest(tokens[:20], range(-1, 19), [7], limit=30)
    gpu = shared_device().gpu
    assert gpu is not None
    gpu.counts = DeviceWork()
    got, _ = model.segments[0].verify(state.caches[0], 0, draws, request)
    assert got.tokens == tuple(tokens[1:])
    assert gpu.counts.dispatches["draw"] == gpu.counts.waits == 2


def history(first: int, row: int = 0) -> list[int]:
    """Tokens before a row of a chain 0, 1, 2, ..., of which the first ones are common."""
    return [*(token % 40 for token in range(first)), *range(1, row + 1)]


def drawn(logits: Floats, draws: NativeDraws, first: int) -> np.ndarray:
    """What the kernels write of rows at positions from `first` on, behind `history`."""
    gpu, (rows, vocab) = shared_device().gpu, logits.shape
    assert gpu is not None
    request = VerifyRequest(range(rows), range(-1, rows - 1), history(first), limit=rows)
    told = DeviceDraws.of(draws, request, first - 1)
    assert told is not None
    words = np.zeros(2 * LOGIT_ROWS + DRAW_SETTINGS, dtype=np.int32)
    words[:rows] = np.arange(rows)
    for place, part in enumerate((told.asked, told.settings), 1):
        words[place * LOGIT_ROWS : place * LOGIT_ROWS + len(part)] = part
    facts = np.zeros((rows, 4), dtype=np.int32)
    facts[:, 1] = np.arange(rows) + first - 1
    shape = gpu.uniform(Account(shared_device().ledger, "test"), [vocab, LOGIT_ROWS])
    sizes = facts.nbytes, words.nbytes, logits.nbytes, 16 * rows, 4 * (3 * LOGIT_ROWS + vocab)
    placed, wanted, given, found, heard = map(gpu.buffer, sizes)
    back = gpu.buffer(16 * rows, readable=True)
    gpu.write(placed, 0, facts)
    gpu.write(wanted, 0, words)
    gpu.write(given, 0, logits)
    if told.heard is not None:
        gpu.write(heard, 0, told.heard)
    cut, draw = gpu.kernel("penalise", "filter"), gpu.kernel("penalise", "gumbel", "draw")
    bound = wanted, given, found, heard
    every = (cut, cut.group(shape, *bound)), (draw, draw.group(shape, placed, *bound))

    def record(encoder: object) -> None:
        work = encoder.begin_compute_pass()  # type: ignore[attr-defined]
        for kernel, group in every[not told.filtered :]:
            work.set_pipeline(kernel.pipeline(1))
            work.set_bind_group(0, group)
            work.dispatch_workgroups(rows)
        work.end()
        encoder.copy_buffer_to_buffer(found, 0, back, 0, 16 * rows)  # type: ignore[attr-defined]

    gpu.submit(record)
    return gpu.read(back, 16 * rows).view(np.uint32).reshape(rows, 4)


@pytest.mark.release(keep=3, reason="every filter")
@pytest.mark.parametrize("name", [name for name in DRAWN_THERE if name != "greedy"])
def test_a_draw_is_the_hosts_or_left_to_it(name: str) -> None:
    """Of 320 draws at least 315 are the device's."""
    draws, rng = NativeDraws(DRAWN_THERE[name], 3001, 20), np.random.default_rng(9)
    made = 0
    for first in range(20, 340, LOGIT_ROWS):
        logits = rng.normal(0, 3, (LOGIT_ROWS, 3001)).astype(np.float32)
        for row, (token, _, _, flags) in enumerate(drawn(logits, draws, first)):
            if not flags:
                made += 1
                assert token == draws.draw(logits[row], history(first, row))
    assert made >= 315


def test_what_is_too_close_is_left_to_the_host() -> None:
    draws = NativeDraws(DRAWN_THERE["with min-p"], 640)
    logits = np.full((2, 640), -50, dtype=np.float32)
    logits[0, 7] = 0  # the only one
    logits[1, 7], logits[1, 9] = 0, np.log(0.05) + 1e-5
    positions = [first for first in range(1, 400) if draws.draw(logits[1], range(first)) == 9]
    assert drawn(logits[:1], draws, 5)[0].tolist()[::3] == [7, 0]
    assert positions, "the token at the floor is never drawn"
    assert drawn(logits[1:], draws, positions[0])[0, 3] == 2
    logits[0, 3] = np.nan
    assert drawn(logits[:1], draws, 5)[0, 3] & 1


@pytest.mark.parametrize("params", [
    SamplingParams(temperature=1, top_p=0.9, seed=8),
    SamplingParams(temperature=0.7, top_k=1000, top_p=0.95, seed=9),
])  # fmt: skip
def test_filters_where_tokens_crowd_and_tie(params: SamplingParams) -> None:
    """More tokens at a cut than are put in order, a cut among those that weigh nothing, ties."""
    rng, made = np.random.default_rng(1), 0
    for spread, step, vocab in ((1, 0, 30_000), (8, 0, 1700), (3, 0.25, 3000)):
        logits = rng.normal(0, spread, (16, vocab)).astype(np.float32)
        logits = np.round(logits / step) * np.float32(step) if step else logits
        draws = NativeDraws(params, vocab)
        for row, (token, _, _, flags) in enumerate(drawn(logits, draws, 7)):
            assert flags or token == draws.draw(logits[row], range(7 + row))
            made += not flags
    assert made >= 44


def test_what_is_out_of_all_proportion_is_the_hosts() -> None:
    request = VerifyRequest([3], [-1], [3], limit=1)
    for params in (SamplingParams(repetition_penalty=1e9), SamplingParams(temperature=1e-5)):
        assert DeviceDraws.of(NativeDraws(params, 100), request, 0) is None
    penalised = NativeDraws(SamplingParams(presence_penalty=1), 100)
    large = VerifyRequest([3] * 65, range(-1, 64), [3], limit=1)
    assert DeviceDraws.of(penalised, large, 0) is None
    assert DeviceDraws.of(penalised, request, 0) is not None
    told = DeviceDraws.of(NativeDraws(SamplingParams(top_k=5), 100), request, 0)
    assert told is not None
    assert not told.filtered, "greedy"


def test_a_walk_ends_where_it_should() -> None:
    request = VerifyRequest([3, 4, 5, 6], [-1, 0, 0, 1], [3], limit=10, stop_ids=(6,))
    told = DeviceDraws.of(NativeDraws(SamplingParams(), 100), request, 0)
    assert told is not None
    assert told.asked == [4, 6, NONE, NONE]
    assert told.some(1, 2).asked == [6, NONE]
    drawn = np.array([[4, 0, 0, 0], [6, 0, 0, 0], [1, 0, 0, 0], [2, 0, 0, 0]], dtype=np.uint32)
    stopped = walked(request, drawn)
    assert stopped is not None
    assert (stopped.path, stopped.tokens, stopped.accepted) == ((0, 1), (4, 6), 2)
    drawn[2, 3] = 2
    assert walked(request, drawn) is not None, "a node that is not on the path"
    drawn[1, 3] = 2
    assert walked(request, drawn) is None
    drawn[1, 3] = 3
    with pytest.raises(InvalidLogits):
        walked(request, drawn)
