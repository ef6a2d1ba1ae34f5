"""The native thread pool: many users, forks, no leaks, silence when idle."""

from __future__ import annotations

import gc
import os
import sys
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from native_models import native_decoder
from stopwatch import least
from tiny_models import write_model

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Budget, DraftRequest
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("pooled"), hidden_size=128, intermediate_size=256)


def answer(decoder: Decoder) -> bytes:
    return decoder.forward(decoder.new_state(128), list(range(3, 70))).logits.tobytes()


def test_any_number_of_threads_gives_the_same_bits(folder: Path) -> None:
    answers = {
        answer(native_decoder(folder, Format.Q4, ThreadPool(threads))) for threads in (1, 2, 3, 7)
    }
    assert len(answers) == 1


def test_a_shared_pool_is_one_and_ends_with_its_last_user() -> None:
    first = shared_pool(5)
    assert shared_pool(5) is first
    assert shared_pool(4) is not first
    draws = Sampler(SamplingParams(), threads=5).native(100)
    assert draws is not None
    assert draws._pool is first, "draws take no more threads than were asked for"
    gone = weakref.ref(first)
    del first, draws
    gc.collect()
    assert gone() is None


@pytest.mark.release(reason="hundreds of loads")
def test_hundreds_of_loads_leave_nothing_behind(folder: Path) -> None:
    process = psutil.Process()

    def cycle(times: int) -> None:
        for _ in range(times):
            answer(native_decoder(folder, Format.Q8, ThreadPool(3)))

    cycle(30)
    gc.collect()  # what earlier tests left may not go meanwhile
    before, threads = process.memory_info().rss, process.num_threads()
    cycle(200)
    assert process.num_threads() <= threads  # others may end theirs meanwhile
    assert process.memory_info().rss - before < 16 * 2**20


def test_models_with_pools_of_their_own_work_at_the_same_time(folder: Path) -> None:
    decoders = [native_decoder(folder, Format.Q4, ThreadPool(2)) for _ in range(4)]
    expected = answer(decoders[0])
    with ThreadPoolExecutor(4) as executor:
        for _ in range(5):
            assert set(executor.map(answer, decoders)) == {expected}


@pytest.mark.parametrize("threads", [2, 5])
def test_models_that_share_a_pool_work_at_the_same_time(folder: Path, threads: int) -> None:
    """As target and draft do when the draft lane is at work; short forwards meet most often."""
    pool = ThreadPool(threads)
    decoders = [native_decoder(folder, fmt, pool) for fmt in (Format.Q4, Format.Q8, Format.Q4)]
    states = [decoder.new_state(128) for decoder in decoders]
    sampler = Sampler(SamplingParams(temperature=0.8, seed=4, top_k=20))

    def answers(index: int) -> list[bytes]:
        """A long forward and short ones, drafts and draws in between."""
        decoder, state = decoders[index], states[index]
        state.crop(0)
        found = [decoder.forward(state, list(range(3, 70))).logits.tobytes()]
        state.commit(range(67))
        for token in range(5, 9):
            logits = decoder.forward(state, [token, token + 1]).logits
            draws = NativeDraws(sampler.params, logits.shape[1], pool=pool)
            found.append(bytes([draws.draw(logits[0], list(state.tokens)) % 256]))
            found.append(draws.rank(logits, len(state), 5)[0].tobytes())
            tree = decoder.draft(state, DraftRequest([token], sampler.ranking, Budget(12, 3, 3)))
            found.append(repr((tree.tokens, tree.scores)).encode())
        return found

    expected = [answers(index) for index in range(3)]
    with ThreadPoolExecutor(3) as executor:
        for _ in range(40):
            assert list(executor.map(answers, range(3))) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_computes_without_the_parents_threads(folder: Path) -> None:
    decoder = native_decoder(folder, Format.Q4, ThreadPool(3))
    expected = answer(decoder)
    child = os.fork()
    if child == 0:
        os._exit(0 if answer(decoder) == expected else 1)
    deadline = time.monotonic() + 240
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, 9)
            pytest.fail("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(done[1]) == 0
    assert answer(decoder) == expected


@pytest.mark.release(reason="a stopwatch")
def test_an_idle_pool_takes_no_time(folder: Path) -> None:
    decoder = native_decoder(folder, Format.Q4, ThreadPool(4))
    answer(decoder)

    def burnt() -> float:
        time.sleep(0.05)  # the moment that workers spin after a job
        before = time.process_time()
        time.sleep(0.5)
        return time.process_time() - before

    assert least(burnt, 0.02) < 0.02


def test_a_cache_of_another_backend_is_refused(folder: Path, tiny: Decoder) -> None:
    decoder = native_decoder(folder, Format.Q8)
    step = decoder.new_state(64).stage([5])
    foreign = tiny.new_state(64).caches[0]
    with pytest.raises(TypeError, match="another backend"):
        decoder.segments[0].run(step, foreign, None)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_untouched_context_takes_no_memory(folder: Path) -> None:
    decoder = native_decoder(folder, Format.Q8)
    process = psutil.Process()
    before = process.memory_info().rss
    state = decoder.new_state(600)
    states = [decoder.new_state(600) for _ in range(200)]
    reserved = sum(kept.nbytes for kept in states)
    assert process.memory_info().rss - before < reserved / 4
    assert np.isfinite(decoder.forward(state, [5]).logits).all()
