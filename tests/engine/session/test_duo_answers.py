"""Answers of an engine that drafts on the CPU while a simulated accelerator verifies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from engine_session import Session, answer_of, generate, user
from folder_models import FOLDER_TARGET
from parallel_runs import no_lane_is_left
from scripted_lanes import script_the_draft

from engine.backend.cpu import native_is_built
from engine.backend.simulated.device import SimulatedDevice
from engine.backend.simulated.spec import DEVICE
from engine.commands import Load, Mode, Stop
from engine.errors import OutOfMemory
from engine.events import (
    Failed,
    FailureKind,
    Finished,
    FinishReason,
    PlanReady,
    PrefillProgress,
    RoundFinished,
    TextDelta,
)
from engine.request import Message, Role, SamplingParams
from engine.speculative.draft_cache import DraftCache

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

GIB = 2**30
QUESTION = "Tell me a story about a fox."
TOKENS = 60
SAMPLED = SamplingParams(temperature=0.8, seed=2**40 + 1)
SAMPLINGS = pytest.mark.parametrize(
    "sampling", [SamplingParams(), SAMPLED], ids=["greedy", "sampled"]
)


def load(session: Session, **wishes: Any) -> PlanReady:
    return session.load(FOLDER_TARGET, mode=Mode.DUO, simulate_gpu=GIB, **wishes)


@pytest.fixture(scope="module")
def plain() -> Iterator[Session]:
    """The target alone, on the CPU."""
    session = Session()
    session.load(FOLDER_TARGET, mode=Mode.PLAIN)
    yield session
    session.close()


@pytest.fixture(scope="module")
def duo() -> Iterator[Session]:
    session = Session()
    assert load(session).plan.mode is Mode.DUO
    yield session
    session.close()


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    assert no_lane_is_left()


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The draft gets as far as dice say, on a busy machine as on an idle one."""
    script_the_draft(monkeypatch)


def check(session: Session, finished: Finished, truth: Finished) -> None:
    """What was told is what the target alone would have told, and nothing else was counted."""
    told, ids = finished.text, finished.token_ids
    assert (finished.reason, told, ids) == (truth.reason, truth.text, truth.token_ids)
    last = max(i for i, event in enumerate(session.events) if event is finished)
    first = max(
        i
        for i, event in enumerate(session.events[:last])
        if isinstance(event, PrefillProgress) and event.done == event.reused
    )
    events = session.events[first:last]
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == told
    rounds = [event for event in events if isinstance(event, RoundFinished)]
    assert sum(done.committed for done in rounds) == finished.stats.committed
    assert finished.stats.committed == truth.stats.committed
    assert all(done.accepted <= min(done.drafted, done.committed) for done in rounds)
    spans = [span for done in rounds for span in done.drafting]
    assert sum(done.useful_s + done.wasted_s for done in rounds) <= (
        sum(span.seconds for span in spans) + 1e-6
    )


@pytest.mark.release(keep=1, reason="every sampling")
@SAMPLINGS
@pytest.mark.usefixtures("scripted")
def test_stop_strings_anywhere_in_what_is_drafted(
    sampling: SamplingParams, plain: Session, duo: Session
) -> None:
    whole = plain.ask(QUESTION, sampling=sampling, max_tokens=TOKENS)
    inside = 0
    for start in range(5, len(whole.text) - 8, 13):
        stop = (whole.text[start : start + 4],)
        wishes: dict[str, Any] = {"sampling": sampling, "stop": stop, "max_tokens": TOKENS}
        truth = plain.ask(QUESTION, **wishes)
        assert truth.reason is FinishReason.STOP
        check(duo, duo.ask(QUESTION, **wishes), truth)
        inside += duo.of(RoundFinished)[-1].accepted > 0
    assert inside, "no stop string was drafted"


@SAMPLINGS
@pytest.mark.usefixtures("scripted")
def test_ends_limits_and_later_turns(
    sampling: SamplingParams, plain: Session, duo: Session
) -> None:
    history = [user("What is the sun?")]
    for limit in (1, 2, 3, 5, 8, None):
        wishes: dict[str, Any] = {"sampling": sampling, "max_tokens": limit}
        truth = plain.ask(*history, **wishes)
        finished = duo.ask(*history, **wishes)
        check(duo, finished, truth)
        if limit in (5, None):
            history += [answer_of(finished), user("And then?")]
    assert duo.of(Finished)[-1].stats.reused_tokens > 10
    assert duo.of(Finished)[-1].stats.accepted > 0


@SAMPLINGS
def test_stopped_by_the_user_anywhere_and_continued(
    sampling: SamplingParams, plain: Session, duo: Session
) -> None:
    dice = random.Random(8)
    whole = plain.ask(QUESTION, sampling=sampling, max_tokens=TOKENS)
    assert whole.token_ids is not None
    stopped = 0
    for number in range(6):
        request_id, after = f"stopped {number}", len(duo.events)
        enough = dice.randint(1, len(whole.token_ids) // 2)

        def reached(event: RoundFinished, after: int = after, enough: int = enough) -> bool:
            done = [each for each in duo.events[after:] if isinstance(each, RoundFinished)]
            return event in done and sum(each.committed for each in done) >= enough

        with duo.holding(RoundFinished, reached) as hold:
            duo.submit(generate(QUESTION, id=request_id, sampling=sampling, max_tokens=TOKENS))
            hold.reached()
            duo.submit(Stop(request_id))
        half = duo.wait(Finished, after=after)
        assert half.token_ids is not None
        assert half.token_ids == whole.token_ids[: len(half.token_ids)]
        assert whole.text.startswith(half.text)
        if half.reason is not FinishReason.STOPPED:  # the round has ended the answer
            assert half.token_ids == whole.token_ids
            continue
        stopped += 1
        begun = Message(Role.ASSISTANT, half.text, half.token_ids)
        left = TOKENS - len(half.token_ids)
        rest = duo.ask(user(QUESTION), begun, sampling=sampling, max_tokens=left)
        assert half.text + rest.text == whole.text
        assert rest.token_ids is not None
        assert half.token_ids + rest.token_ids == whole.token_ids
    assert stopped


def test_stopped_while_both_read_the_prompt(plain: Session, duo: Session) -> None:
    question = "One two three four five six seven. " * 40
    with duo.holding(PrefillProgress, lambda event: event.request_id == "long") as hold:
        duo.submit(generate(question, id="long"))
        hold.reached()
        duo.submit(Stop("long"))
    stopped = duo.wait(Finished, lambda event: event.request_id == "long")
    assert (stopped.reason, stopped.text) == (FinishReason.STOPPED, "")
    truth = plain.ask(question, max_tokens=10)
    check(duo, duo.ask(question, id="long again", max_tokens=10), truth)


# -- when something goes wrong -----------------------------------------------------------------


@pytest.mark.release(keep=3, reason="every moment")
@pytest.mark.parametrize("call", [0, 1, 6])
@pytest.mark.parametrize(
    "error", [RuntimeError("broken"), OutOfMemory("No memory is left.", "Close something.")]
)
def test_a_draft_that_fails_ends_the_answer_in_words(
    duo: Session, plain: Session, monkeypatch: pytest.MonkeyPatch, error: Exception, call: int
) -> None:
    truth = plain.ask(QUESTION, max_tokens=TOKENS)
    calls: list[int] = []
    honest = DraftCache.compute

    def fails(self: DraftCache, *arguments: Any) -> Any:
        calls.append(1)
        if len(calls) > call:
            raise error
        return honest(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(DraftCache, "compute", fails)
        after = len(duo.events)
        broken = duo.ask(QUESTION, max_tokens=TOKENS)
    assert broken.reason is FinishReason.ERROR
    assert truth.text.startswith(broken.text)
    failed = duo.wait(Failed, after=after)
    assert failed.bug == isinstance(error, RuntimeError)
    assert (failed.kind is FailureKind.OUT_OF_MEMORY) == isinstance(error, OutOfMemory)
    check(duo, duo.ask(QUESTION, max_tokens=TOKENS), truth)


def test_a_lost_accelerator_ends_the_answer_and_the_next_one_does_without(
    session: Session, plain: Session
) -> None:
    truth = plain.ask(QUESTION, max_tokens=TOKENS)
    load(session)
    pair = session.engine._slot.pair
    assert pair is not None
    device = pair.devices[DEVICE]
    assert isinstance(device, SimulatedDevice)
    hold = session.write_until(QUESTION, max_tokens=TOKENS)
    device.lose()
    del device, pair
    session.submit(generate(QUESTION, id="b", max_tokens=TOKENS))
    hold.release()
    broken = session.wait(Finished)
    assert broken.reason is FinishReason.ERROR
    assert truth.text.startswith(broken.text)
    again = session.wait(Finished, lambda event: event.request_id == "b")
    assert (again.reason, again.text) == (truth.reason, truth.text)
    assert session.of(PlanReady)[-1].plan.mode is not Mode.DUO


def test_another_model_in_the_middle_of_things(session: Session, plain: Session) -> None:
    """The pair, its lane and its memory go and come while requests wait."""
    truth = plain.ask(QUESTION, max_tokens=TOKENS)
    load(session)
    for number in range(3):
        session.submit(generate(QUESTION, id=f"{number}", max_tokens=TOKENS))
        session.submit(Load(FOLDER_TARGET, mode=Mode.DUO, simulate_gpu=GIB, after_answer=True))
    for number in range(3):
        done = session.wait(Finished, lambda event, n=f"{number}": event.request_id == n)
        assert (done.reason, done.text) == (truth.reason, truth.text)
