"""The simulated accelerator: the same bits, a ledger that refuses, counted copies, its own time."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Sequence
from time import perf_counter

import numpy as np
import pytest
from full_models import RandomWeights, full_config, full_decoder
from simulated_models import MEMORY, instant, on_simulated
from test_one_arithmetic import prefilled, prompt, tree_logits

from engine.backend.decoder import Decoder
from engine.backend.ledger import Purpose
from engine.backend.native.library import Format
from engine.backend.native.pool import CancelFlag
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Budget, DraftRequest, Ranking, VerifyRequest
from engine.backend.segment import Segment
from engine.backend.simulated.device import SimulatedDevice, threads_beside_it
from engine.backend.simulated.spec import SimulatedSpec
from engine.backend.tree import TokenTree
from engine.commands import WeightFormat
from engine.errors import Absent, DeviceLost, OutOfMemory
from engine.request import SamplingParams

CONFIG = full_config()
ROWS = 5


@pytest.fixture
def device() -> SimulatedDevice:
    return SimulatedDevice(instant())


def placed(device: SimulatedDevice, borders: Sequence[int] = (), **how: int) -> Decoder:
    return on_simulated(CONFIG, RandomWeights(CONFIG), device, borders, **how)


# -- what it computes ----------------------------------------------------------------------------


@pytest.mark.release(keep=3, reason="every placement")
@pytest.mark.parametrize("borders", [(), (0,), (2,), (0, 3), (0, 4), (1, 2, 3)])
def test_it_computes_what_the_cpu_does(device: SimulatedDevice, borders: Sequence[int]) -> None:
    whole, split = full_decoder(Format.Q8), placed(device, borders)
    path = prompt(whole, 12)[::-1]
    expected = tree_logits(whole, prefilled(whole, 64), path)
    state = prefilled(split, 64)
    np.testing.assert_array_equal(tree_logits(split, state, path), expected)
    other = split.new_state(640)
    other.copy_prefix(state, 140)
    split.forward(other, prompt(whole)[140:], logit_rows=())
    other.commit(range(10))
    np.testing.assert_array_equal(tree_logits(split, other, path), expected)


def test_taps_of_both_devices(device: SimulatedDevice) -> None:
    whole, split = full_decoder(Format.Q8), placed(device, (0, 1, 3))
    tokens = prompt(whole, 70)
    expected = whole.forward(whole.new_state(128), tokens, taps=(0, 1, 2, 3))
    got = split.forward(split.new_state(128), tokens, taps=(0, 1, 2, 3))
    for tap in range(4):
        np.testing.assert_array_equal(got.taps[tap], expected.taps[tap])
    np.testing.assert_array_equal(got.hidden, expected.hidden)


@pytest.mark.parametrize(
    ("borders", "expected"),
    [
        ((), "sim:q8+bf16/kv-f16"),
        ((0,), "sim:q8+bf16/kv-f16"),
        ((1,), "cpu:q8/kv-f16[0:1]+sim:q8+bf16/kv-f16[1:4]"),
    ],
)
def test_the_signature_says_that_it_is_simulated(
    device: SimulatedDevice, borders: Sequence[int], expected: str
) -> None:
    decoder = placed(device, borders)
    assert decoder.signature == expected


def test_whole_models_draft_and_verify_in_one_call(device: SimulatedDevice) -> None:
    assert placed(device).drafts_trees
    assert not placed(device, (0,)).drafts_trees
    for borders in ((), (0,), (0, 2)):
        assert type(placed(device, borders).segments[-1]).verify is not Segment.verify


def test_formats_that_it_cannot_compute(device: SimulatedDevice) -> None:
    with pytest.raises(Absent, match="native"):
        device.backend(WeightFormat.F32, "target")


# -- memory ----------------------------------------------------------------------------------------


def test_everything_is_in_its_ledger() -> None:
    device = SimulatedDevice(instant(runtime_bytes=1 << 20))
    decoder = placed(device, (0,))
    on_device = decoder.segments[1].weight_bytes
    lines = {(line.owner, line.purpose): line.nbytes for line in device.ledger.lines()}
    assert lines["device", Purpose.RUNTIME] == 1 << 20
    assert on_device <= lines["target", Purpose.WEIGHTS] < on_device * 1.1
    state = decoder.new_state(128)
    lines = {(line.owner, line.purpose): line.nbytes for line in device.ledger.lines()}
    assert lines["target", Purpose.KV] == state.nbytes == state.caches[1].nbytes
    assert device.ledger.held <= MEMORY


def test_a_budget_that_refuses() -> None:
    roomy = SimulatedDevice(instant())
    placed_there = placed(roomy)
    needed = roomy.ledger.held
    tight = SimulatedDevice(instant(), budget=needed - 1)
    with pytest.raises(OutOfMemory, match="Simulated GPU"):
        placed(tight)
    gc.collect()
    assert tight.ledger.held == 0
    assert tight.ledger.peak < needed
    exact = SimulatedDevice(instant(memory=needed))
    decoder = placed(exact)
    with pytest.raises(OutOfMemory, match="do not fit"):
        decoder.new_state(100_000)
    assert exact.ledger.peak <= needed
    assert placed_there.weight_bytes == decoder.weight_bytes


def test_memory_that_other_programs_take() -> None:
    device = SimulatedDevice(instant(), budget=MEMORY // 2)
    decoder = placed(device)
    state = decoder.new_state(64)
    device.take_by_others(MEMORY // 4)
    assert device.accelerator.memory_free == MEMORY * 3 // 4
    assert device.ledger.budget == MEMORY // 2  # the wish still fits
    device.take_by_others(MEMORY * 3 // 4)
    with pytest.raises(OutOfMemory):
        decoder.new_state(64)
    assert decoder.forward(state, [5]).logits.any()  # what is there stays
    device.take_by_others(-MEMORY)
    assert decoder.new_state(64).nbytes


def test_nothing_stays_after_unloading(device: SimulatedDevice) -> None:
    threads = threading.active_count()
    decoder = placed(device, (0, 2))
    state = decoder.new_state(64)
    decoder.forward(state, [5, 6, 7])
    assert device.ledger.held > 0
    del decoder, state
    gc.collect()
    assert device.ledger.held == 0
    assert threading.active_count() == threads


# -- copies ----------------------------------------------------------------------------------------


def copies(device: SimulatedDevice) -> tuple[tuple[int, int], tuple[int, int]]:
    received, sent = device.processor.received, device.processor.sent
    return (received.count, received.nbytes), (sent.count, sent.nbytes)


HIDDEN = 4 * CONFIG.hidden_size * ROWS
LOGITS = 4 * CONFIG.vocab_size


@pytest.mark.parametrize(
    ("borders", "received", "sent"),
    [
        ((), (1, 4 * ROWS), (1, 2 * LOGITS)),
        ((0,), (1, HIDDEN), (1, 2 * LOGITS)),
        ((0, 2), (1, HIDDEN), (1, HIDDEN)),
        ((0, 1, 2, 4), (2, 2 * HIDDEN), (2, 2 * HIDDEN)),
    ],
)
def test_copies_at_the_borders(
    device: SimulatedDevice,
    borders: Sequence[int],
    received: tuple[int, int],
    sent: tuple[int, int],
) -> None:
    decoder = placed(device, borders)
    state = decoder.new_state(64)
    assert copies(device) == ((0, 0), (0, 0))
    decoder.forward(state, range(3, 3 + ROWS), logit_rows=(1, 4))
    assert copies(device) == (received, sent)


def test_copies_of_taps_and_of_prefill(device: SimulatedDevice) -> None:
    decoder = placed(device, (0,))
    state = decoder.new_state(64)
    decoder.forward(state, range(3, 3 + ROWS), logit_rows=())
    assert copies(device) == ((1, HIDDEN), (0, 0))  # the keys stay where they are
    decoder.forward(state, range(3, 3 + ROWS), logit_rows=(), taps=(0, 2))
    assert copies(device) == ((2, 2 * HIDDEN), (2, 2 * HIDDEN))


def test_copies_of_single_calls(device: SimulatedDevice) -> None:
    decoder = placed(device)
    state = decoder.new_state(64)
    ranking, budget = Ranking(0.0, 0, share_noise=True), Budget(6, 3, 2, 0.0)
    tree = decoder.draft(state, DraftRequest([5, 6, 7], ranking, budget))
    assert copies(device) == ((1, 12), (1, 16 * len(tree.tokens)))
    stop = CancelFlag()
    stop.set()
    request = DraftRequest([5], ranking, budget)
    assert decoder.draft(decoder.new_state(64), request, stop) == TokenTree.root(5)
    tokens = [5, 6, 7, 8]
    draws = NativeDraws(SamplingParams(), CONFIG.vocab_size)
    done = decoder.verify(state, draws, VerifyRequest([8, 9], [-1, 0], tokens, 2))
    back = 4 * (len(done.path) + len(done.tokens))
    assert copies(device) == ((3, 12 + 4 + 8), (2, 16 * len(tree.tokens) + back))


def test_copies_of_a_verification_whose_end_is_on_the_device(device: SimulatedDevice) -> None:
    """Hidden states go there, and draws come back instead of logits."""
    decoder = placed(device, (0,))
    state = decoder.new_state(64)
    draws = NativeDraws(SamplingParams(), CONFIG.vocab_size)
    done = decoder.verify(state, draws, VerifyRequest([8, 9], [-1, 0], [8], 2))
    back = 4 * (len(done.path) + len(done.tokens))
    assert copies(device) == ((1, 2 * 4 * CONFIG.hidden_size), (1, back))


# -- time ------------------------------------------------------------------------------------------


def test_a_call_never_ends_before_its_declared_time() -> None:
    slow = SimulatedSpec(MEMORY, 1e9, 1e12, 1e9, 2e-3)
    device = SimulatedDevice(slow)
    decoder = placed(device, (0,))
    state = decoder.new_state(640)
    processor = device.processor
    for rows in (1, 1, 40, 2):
        before = processor.declared_s
        start = perf_counter()
        decoder.forward(state, range(3, 3 + rows))
        took = perf_counter() - start
        state.commit(range(rows))
        declared = processor.declared_s - before
        assert declared >= 6e-3  # of the call, and of two copies
        assert took >= declared
    moved = processor.declared_s
    decoder.forward(state, [3, 4, 5], [-1, 0, 0])
    forward = processor.declared_s
    state.commit([0, 2])
    assert processor.declared_s - forward >= 2e-3  # keys move on the device
    assert forward > moved


def test_drafting_takes_a_forward_per_level() -> None:
    spec = SimulatedSpec(MEMORY, 1e8, 1e12, 1e12, 0.0)
    device = SimulatedDevice(spec)
    decoder = placed(device)
    state = decoder.new_state(64)
    ranking = Ranking(0.0, 0, share_noise=True)
    declared = []
    for depth in (1, 2, 4):
        before, start = device.processor.declared_s, perf_counter()
        decoder.draft(state, DraftRequest([5], ranking, Budget(8, depth, 1, 0.0)))
        declared.append(device.processor.declared_s - before)
        assert perf_counter() - start >= declared[-1]
    assert declared[1] > 1.5 * declared[0]
    assert declared[2] > 1.5 * declared[1]


def test_one_call_at_a_time(device: SimulatedDevice) -> None:
    decoder = placed(device)
    inside: list[int] = []
    native, together = decoder.segments[0]._native, []  # type: ignore[attr-defined]
    run = native.run

    def watched(*arguments: object) -> object:
        inside.append(1)
        together.append(len(inside))
        result = run(*arguments)
        inside.pop()
        return result

    native.run = watched

    def work() -> None:
        state = decoder.new_state(256)
        for _ in range(20):
            decoder.forward(state, range(3, 13), logit_rows=())
            state.commit(range(10))

    lanes = [threading.Thread(target=work) for _ in range(3)]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()
    assert together == [1] * 60


@pytest.mark.release(reason="a busy machine may let a thread wait")
def test_two_lanes_overlap() -> None:
    """While a call on the device takes its time, another thread computes on the CPU."""
    # Of several calls, each longer: other programs may have the cores for as long as one takes.
    assert any(_calls_meanwhile(30e-3 * 2**attempt) >= 3 for attempt in range(8))


def _calls_meanwhile(seconds: float) -> int:
    """How many forwards on the CPU begin and end within one of `seconds` on the device."""
    device = SimulatedDevice(SimulatedSpec(MEMORY, 1e18, 1e21, 1e18, seconds))
    target, draft = placed(device), full_decoder(Format.Q8)
    state, own = target.new_state(64), draft.new_state(64)
    draft.forward(own, [3])
    ready = threading.Barrier(2)
    calls: list[tuple[float, float]] = []
    finished = threading.Event()

    def on_cpu() -> None:
        ready.wait()
        while not finished.is_set():
            own.discard()
            start = perf_counter()
            draft.forward(own, [3])
            calls.append((start, perf_counter()))

    lane = threading.Thread(target=on_cpu)
    lane.start()
    ready.wait()
    start = perf_counter()
    target.forward(state, [3, 4])
    end = perf_counter()
    finished.set()
    lane.join()
    return sum(start < begun and done < end for begun, done in calls)


def test_a_stop_ends_the_waiting() -> None:
    device = SimulatedDevice(SimulatedSpec(MEMORY, 1e18, 1e21, 1e18, 60.0))
    decoder = placed(device)
    state = decoder.new_state(64)

    asked: list[int] = []

    def stopped() -> bool:
        asked.append(1)
        return len(asked) > 2

    device.processor.interrupted = stopped
    decoder.forward(state, [3])
    assert len(asked) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="threads cannot choose their core")
def test_a_core_of_its_own() -> None:
    device = SimulatedDevice(instant())
    decoder = placed(device)
    state = decoder.new_state(64)
    cores = os.sched_getaffinity(0)
    native = decoder.segments[0]._native  # type: ignore[attr-defined]
    run, seen = native.run, []

    def watched(*arguments: object) -> object:
        seen.append(os.sched_getaffinity(0))
        return run(*arguments)

    native.run = watched
    decoder.forward(state, [3])
    assert os.sched_getaffinity(0) == cores
    if len(cores) > 1:
        assert seen == [{device.processor.core}]
    device.lose()
    with pytest.raises(DeviceLost):
        decoder.forward(state, [3])
    assert os.sched_getaffinity(0) == cores


def test_the_rest_of_the_cpu_has_a_core_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, left in (("8", 7), ("2", 1), ("1", 1)):
        monkeypatch.setenv("DUOTAIL_THREADS", cores)
        assert threads_beside_it() == left


# -- a lost device ---------------------------------------------------------------------------------


def test_nothing_answers_any_more(device: SimulatedDevice) -> None:
    decoder = placed(device, (0, 2))
    state, other = decoder.new_state(64), decoder.new_state(64)
    decoder.forward(state, [3, 4, 5], [-1, 0, 0])
    device.lose()
    calls = (
        lambda: state.commit([0, 2]),
        lambda: decoder.forward(other, [3]),
        lambda: other.copy_prefix(state, 0),
        lambda: decoder.new_state(64),
        lambda: placed(device),
    )
    for call in calls:
        with pytest.raises(DeviceLost, match="Simulated GPU"):
            call()


def test_a_device_lost_in_the_middle_of_a_call() -> None:
    device = SimulatedDevice(SimulatedSpec(MEMORY, 1e18, 1e21, 1e18, 60.0))
    decoder = placed(device)
    state = decoder.new_state(64)
    device.processor.interrupted = lambda: bool(device.lose())  # asked while the call waits
    with pytest.raises(DeviceLost):
        decoder.forward(state, [3])
