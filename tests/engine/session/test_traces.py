"""What an answer tells of its tokens and copies: probabilities, guesses, transfers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest
from engine_session import Session, generate
from folder_models import FOLDER_TARGET

from engine.backend.cpu import CpuDevice, native_is_built
from engine.backend.device import Transfers
from engine.commands import DraftChoice, Mode
from engine.events import Finished, Interval, Origin, RoundFinished, TextDelta, TokenSpan
from engine.request import SamplingParams
from engine.session.answer import read

pytestmark = pytest.mark.skipif(not native_is_built(), reason="the native library is not built")

STORY = "Tell me a short story about a dog."
SAMPLED = SamplingParams(
    temperature=0.9, seed=5, top_k=40, repetition_penalty=1.1, presence_penalty=0.2
)
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"mode": Mode.PLAIN},
    "serial": {"mode": Mode.CPU},
    "lookup": {"mode": Mode.CPU, "draft": DraftChoice.LOOKUP},
    "split": {"mode": Mode.DOVETAIL, "simulate_gpu": 1 << 30, "layers_on_gpu": 3},
    "parallel": {"mode": Mode.DUO, "simulate_gpu": 1 << 30},
}


@pytest.fixture(scope="module", params=WAYS)
def told(request: pytest.FixtureRequest) -> Iterator[tuple[str, Session]]:
    """A greedy answer, and one with every filter."""
    session = Session()
    session.load(FOLDER_TARGET, **WAYS[request.param])
    session.ask(STORY, id="greedy", max_tokens=60)
    session.ask(STORY, id="sampled", sampling=SAMPLED, max_tokens=60)
    yield request.param, session
    session.close()


BOTH = pytest.mark.parametrize("answer", ["greedy", "sampled"])


def spans_of(session: Session, answer: str) -> list[TokenSpan]:
    return [span for delta in session.of(TextDelta, answer) for span in delta.spans]


def reference(session: Session, ids: tuple[int, ...]) -> list[float]:
    """A softmax of what the target says of the whole answer at once."""
    pair = session.engine._slot.pair
    assert pair is not None
    prompt = read(generate(STORY).request, pair.template, pair.tokenizer).ids
    state = pair.target.new_state(len(prompt) + len(ids))
    tokens = [*prompt, *ids[:-1]]
    forward = pair.target.forward(state, tokens, logit_rows=range(len(prompt) - 1, len(tokens)))
    logits = forward.logits.astype(np.float64)
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return [float(row[token] / row.sum()) for row, token in zip(weights, ids, strict=True)]


@pytest.mark.release(keep=5, reason="every loop")
@BOTH
def test_every_token_has_the_probability_that_a_softmax_gives_it(
    told: tuple[str, Session], answer: str
) -> None:
    session = told[1]
    (finished,) = session.of(Finished, answer)
    spans = spans_of(session, answer)
    assert finished.token_ids
    assert tuple(span.token_id for span in spans) == finished.token_ids
    found = [span.probability for span in spans]
    assert found == pytest.approx(reference(session, finished.token_ids), rel=1e-3, abs=1e-6)


@BOTH
def test_guesses_are_what_was_accepted_and_what_was_not(
    told: tuple[str, Session], answer: str
) -> None:
    way, session = told
    spans = iter(spans_of(session, answer))
    rounds = session.of(RoundFinished, answer)
    for done in rounds:
        own = [next(spans) for _ in range(done.committed)]
        accepted = [guess for guess in done.guesses if guess.accepted]
        refused = [guess for guess in done.guesses if not guess.accepted]
        assert done.guesses == (*accepted, *refused)
        assert len(accepted) == done.accepted
        assert [guess.probability for guess in accepted] == [
            span.probability for span in own if span.origin is Origin.DRAFTED
        ]
        assert len(refused) == bool(done.rejected)
        for guess in refused:
            assert done.rejected.startswith(guess.text)
            assert guess.probability is not None
            assert 0 <= guess.probability < 1
    drafted = [guess.draft_probability for done in rounds for guess in done.guesses]
    assert all(chance is None or 0 < chance <= 1 for chance in drafted)
    if way in ("plain", "lookup"):  # that drafts, and is no model
        assert not any(drafted)
    elif way != "parallel":  # where what is drafted in time depends on the machine
        assert any(drafted)


@BOTH
def test_the_guesses_of_a_story_write_it(told: tuple[str, Session], answer: str) -> None:
    """A trained model writes plain English here: what was accepted is what is shown."""
    session = told[1]
    (finished,) = session.of(Finished, answer)
    assert finished.text.isascii()
    for done in session.of(RoundFinished, answer):
        accepted = "".join(guess.text for guess in done.guesses if guess.accepted)
        assert finished.text[done.text_start : done.text_end].startswith(accepted)


@BOTH
def test_copies_lie_in_their_rounds(told: tuple[str, Session], answer: str) -> None:
    way, session = told
    rounds = session.of(RoundFinished, answer)
    if "simulate_gpu" not in WAYS[way]:
        assert not any(done.transfers for done in rounds)
        return
    for before, done in pairwise(rounds):
        # Out to the device and back at least, whatever was drafted.
        assert len(done.transfers) >= 2
        assert done.transfers == tuple(sorted(done.transfers, key=lambda copy: copy.start))
        assert before.verify.end <= done.transfers[0].start
        assert all(copy.seconds >= 0 and copy.end <= done.verify.end for copy in done.transfers)
        own = [copy for copy in done.transfers if copy.start >= done.verify.start]
        assert len(own) >= 2


def test_where_nothing_is_measured_nothing_is_told() -> None:
    assert not CpuDevice().transfers.take(inf)


def test_copies_that_nobody_asks_for_are_forgotten() -> None:
    transfers = Transfers()
    for number in range(5000):
        transfers.note(number, number + 0.5)
    assert transfers.take(4000.0)[-1] == Interval(3999, 3999.5)
    left = transfers.take(inf)
    assert (left[0].start, left[-1].start) == (4000, 4999)
    assert transfers.take(inf) == []
