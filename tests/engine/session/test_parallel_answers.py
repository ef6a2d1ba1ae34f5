"""The engine in the mode "duo": the draft computes beside the target; what ends an answer."""

from __future__ import annotations

from dataclasses import replace
from itertools import count, pairwise
from threading import enumerate as threads
from time import perf_counter
from typing import Any

import pytest
from engine_session import Session, answer_of, generate, user
from folder_models import FOLDER_TARGET
from scripted_lanes import script_the_draft
from stopwatch import least

from engine.backend.cpu import native_is_built
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import DEVICE
from engine.bench.harness import ALL, PLAIN, MeasuredStrategy, figures, measure
from engine.bench.pair_writer import PairWriter, without_draft
from engine.bench.prompts import BenchPrompt
from engine.commands import ALL_LAYERS, DraftChoice, Load, Mode, Stop
from engine.events import (
    Failed,
    Finished,
    FinishReason,
    PlanReady,
    PrefillProgress,
    RoundFinished,
    TextDelta,
)
from engine.request import SamplingParams
from engine.speculative.draft_cache import DraftCache
from engine.speculative.draft_tree import DraftPace
from engine.speculative.draft_worker import ParallelDraft
from engine.speculative.drafters.drafter import DraftContext
from engine.speculative.loops import Parallel

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

MEMORY = 2 << 30
QUESTION = "Tell me a story about a fox."
LONG = "It was a dark and stormy night, and the old clock had stopped. " * 20
SAMPLED = SamplingParams(temperature=0.9, seed=5, top_p=0.95)
STOP_S = 0.3


def load(session: Session, mode: Mode = Mode.DUO, **wishes: Any) -> PlanReady:
    layers = ALL_LAYERS if mode is Mode.PLAIN else None  # on the accelerator as well
    wishes = {"simulate_gpu": MEMORY, "mode": mode, "layers_on_gpu": layers, **wishes}
    return session.load(FOLDER_TARGET, **wishes)


def lanes() -> list[str]:
    """Threads of draft lanes that are still there."""
    return [thread.name for thread in threads() if thread.name == "draft worker"]


@pytest.mark.release(keep=1, reason="every sampling")
@pytest.mark.parametrize("sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"])
def test_an_answer_is_what_the_target_alone_writes(
    session: Session, sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    script_the_draft(monkeypatch)
    load(session, Mode.PLAIN)
    wishes: dict[str, Any] = {"sampling": sampling, "max_tokens": 60}
    plain = session.ask(QUESTION, **wishes)
    cut = session.ask(QUESTION, stop=(plain.text[40:44],), **wishes)
    ready = load(session)
    assert (ready.plan.mode, ready.plan.draft_device) == (Mode.DUO, "CPU")
    assert ready.plan.signature == "sim:q8/kv-f16"  # which computes as the CPU does
    duo = session.ask(QUESTION, id="b", **wishes)
    assert (duo.token_ids, duo.reason) == (plain.token_ids, plain.reason)
    assert duo.stats.mode == Mode.DUO
    assert duo.stats.accepted > 0
    assert duo.stats.rounds < plain.stats.rounds
    assert duo.stats.draft_useful is not None
    stopped = session.ask(QUESTION, id="c", stop=(plain.text[40:44],), **wishes)
    assert (stopped.text, stopped.reason) == (cut.text, FinishReason.STOP)
    assert stopped.token_ids == cut.token_ids
    assert not lanes()


def test_a_second_turn_reuses_what_both_have_computed(session: Session) -> None:
    load(session)
    first = session.ask(QUESTION, max_tokens=30)
    again = user("What is the moral?")
    second = session.ask(user(QUESTION), answer_of(first), again, id="b", max_tokens=30)
    assert second.stats.reused_tokens >= first.stats.prompt_tokens + first.stats.committed - 2
    load(session, Mode.PLAIN)
    alone = session.ask(user(QUESTION), answer_of(first), again, id="c", max_tokens=30)
    assert second.token_ids == alone.token_ids


@pytest.mark.release(reason="a busy machine may let the draft's thread wait")
def test_the_draft_computes_while_the_target_verifies(session: Session) -> None:
    load(session)
    session.ask(QUESTION, max_tokens=60)
    rounds = session.of(RoundFinished)
    assert any(
        span.start < done.verify.end and span.end > done.verify.start
        for done in rounds
        for span in done.drafting
    )
    spans = [span for done in rounds for span in done.drafting]
    assert all(one.end <= two.start for one, two in pairwise(spans))


def test_comparing_it_with_the_target_alone_leaves_the_lane_out(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(session)
    pair = session.engine._slot.pair
    assert pair is not None
    honest, followed = ParallelDraft.worker, 0

    def worker(self: ParallelDraft, *arguments: Any, **wishes: Any) -> Any:
        nonlocal followed
        followed += 1
        return honest(self, *arguments, **wishes)

    monkeypatch.setattr(ParallelDraft, "worker", worker)
    prompts = [BenchPrompt("stories", QUESTION)]
    writers = {PLAIN: PairWriter(without_draft(pair)), "duo": PairWriter(pair)}
    strategies = {name: MeasuredStrategy(writer) for name, writer in writers.items()}
    measured = measure(strategies, prompts, SAMPLED, max_tokens=40, repeat=2)
    assert followed == 3, "once untimed"
    assert figures(strategies, measured)[ALL]["duo"].exact


# -- whatever ends an answer -------------------------------------------------------------------


@pytest.mark.release(reason="a stopwatch")
@pytest.mark.parametrize(
    ("kind", "question"), [(PrefillProgress, LONG), (TextDelta, QUESTION), (RoundFinished, LONG)]
)
def test_a_stop_is_obeyed_at_once_and_ends_the_lane(
    session: Session, kind: type[Any], question: str
) -> None:
    load(session)
    numbers = count()

    def stopping() -> float:
        name = f"stopped {next(numbers)}"
        begun = f"{name}: {question}"  # of which nothing has been read before
        with session.holding(kind, lambda event: event.request_id == name) as hold:
            session.submit(generate(begun, id=name, max_tokens=200))
            hold.reached()
            session.submit(Stop())
            asked = perf_counter()
            hold.release()
            finished = session.wait(Finished, lambda event: event.request_id == name)
        assert finished.reason is FinishReason.STOPPED
        assert not lanes()
        return finished.at - asked

    assert least(stopping, STOP_S) < STOP_S
    assert session.ask(QUESTION, id="b", max_tokens=20).reason is FinishReason.LENGTH


def test_a_lost_device_ends_the_answer_and_the_next_one_does_without(session: Session) -> None:
    load(session)
    hold = session.write_until(QUESTION, max_tokens=60)
    pair = session.engine._slot.pair
    assert pair is not None
    device = pair.devices[DEVICE]
    assert isinstance(device, SimulatedDevice)
    device.lose()
    hold.release()
    broken = session.wait(Finished)
    assert broken.reason is FinishReason.ERROR
    assert broken.text  # what was committed is kept
    plan = session.wait(PlanReady, count=2).plan
    assert (plan.mode, plan.layers_on_gpu) == (Mode.CPU, 0)
    assert session.ask(QUESTION, id="b", max_tokens=20).text.startswith(broken.text[:20])
    assert not lanes()


def test_an_error_in_the_lane_is_told_and_the_next_answer_is_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(session)
    whole = session.ask(QUESTION, max_tokens=60)
    honest, calls = DraftCache.compute, 0

    def failing(self: DraftCache, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise RuntimeError("the draft has failed")
        return honest(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DraftCache, "compute", failing)
        broken = session.ask(QUESTION, id="b", max_tokens=60)
    assert broken.reason is FinishReason.ERROR
    assert whole.text.startswith(broken.text)
    failed = session.wait(Failed)
    assert (failed.request_id, failed.bug) == ("b", True)
    assert not lanes()
    assert session.ask(QUESTION, id="c", max_tokens=60).token_ids == whole.token_ids


# -- where it cannot be --------------------------------------------------------------------------


def test_a_duo_needs_a_draft_model(session: Session) -> None:
    session.submit(Load(FOLDER_TARGET, DraftChoice.LOOKUP, mode=Mode.DUO, simulate_gpu=MEMORY))
    assert "draft model" in session.wait(Failed).cause


def test_beside_a_real_card_the_draft_reads_the_prompt_at_once(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(session)
    pair = session.engine._slot.pair
    assert pair is not None
    loop = pair.loop
    assert isinstance(loop, Parallel)
    assert not loop.reads_beside, "for it is simulated, and would slow the first token down"
    honest, paces = ParallelDraft.worker, []

    def noted(
        lane: ParallelDraft, context: DraftContext, pace: DraftPace | None, **reads: int
    ) -> Any:
        paces.append(pace)
        return honest(lane, context, pace, **reads)

    monkeypatch.setattr(ParallelDraft, "worker", noted)
    late = session.ask(QUESTION, max_tokens=30)
    pair.loop = replace(loop, reads_beside=True)
    early = session.ask(QUESTION, id="b", max_tokens=30)
    assert early.token_ids == late.token_ids
    assert paces[0] is None
    assert paces[1] is not None
