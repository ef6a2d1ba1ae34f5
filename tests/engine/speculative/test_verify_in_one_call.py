"""Verification in one native call is the forward, the walk and the commit, one after the other."""

from __future__ import annotations

from copy import copy
from types import MethodType

import numpy as np
import pytest
from harness import SAMPLINGS, OracleDrafter, RandomController, Run, decode
from split_models import split_full_decoder

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.sampling import NativeDraws
from engine.backend.round import Verified, VerifyRequest
from engine.backend.segment import Segment
from engine.backend.sequence import SequenceState
from engine.errors import InvalidLogits
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

LENGTH = 60


class OneAfterTheOther(Decoder):
    """The same segments without the one call."""

    def verify(self, state: SequenceState, draws: NativeDraws, request: VerifyRequest) -> Verified:
        logits = self.forward(state, request.nodes, request.parents).logits
        verified = draws.verify(request, logits)
        state.commit(verified.path)
        return verified


def as_any_segment(target: Decoder) -> Decoder:
    """The same segments, the last of which verifies as segments do that have no call for it."""
    last = copy(target.segments[-1])
    vars(last)["verify"] = MethodType(Segment.verify, last)
    return Decoder(target.config, [*target.segments[:-1], last])


def run(target: Decoder, answer: list[int], prompt: list[int], params: SamplingParams) -> Run:
    """The answer with the same random trees and budgets every time."""
    rng = np.random.default_rng(4)
    drafter = OracleDrafter(answer, len(prompt), target.config.vocab_size, rng)
    return decode(
        target,
        prompt,
        params,
        drafter=drafter,
        controller=RandomController(rng),
        max_tokens=LENGTH,
        stop_ids=answer[-3:],
    )


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_one_call_is_one_after_the_other(
    sampling: SamplingParams, native: dict[Format, tuple[Decoder, Decoder]]
) -> None:
    assert_one_call_is_one_after_the_other(native[Format.Q8][0], sampling)


@pytest.mark.parametrize("name", ["gemma2", "gemma3_text", "gpt_oss", "every feature"])
def test_one_call_is_one_after_the_other_with_every_feature(
    name: str, featured: dict[str, Decoder]
) -> None:
    assert_one_call_is_one_after_the_other(featured[name], SAMPLINGS["sampled"])


@pytest.mark.release(keep=2, reason="every sampling")
@pytest.mark.parametrize("borders", [(0,), (2,), (0, 2), (4,)], ids=str)
def test_one_call_behind_other_segments(borders: tuple[int, ...]) -> None:
    assert_one_call_is_one_after_the_other(
        split_full_decoder(Format.Q8, borders), SAMPLINGS["sampled"]
    )


def assert_one_call_is_one_after_the_other(target: Decoder, sampling: SamplingParams) -> None:
    apart = OneAfterTheOther(target.config, target.segments)
    prompt = list(range(3, 64))  # the tree lies across a border between chunks of keys
    answer = decode(target, prompt, sampling, max_tokens=LENGTH).tokens
    many = run(apart, answer, prompt, sampling)
    for model in (target, as_any_segment(target)):
        assert_same_rounds(target, run(model, answer, prompt, sampling), many)


def assert_same_rounds(target: Decoder, one: Run, many: Run) -> None:
    for a, b in zip(one.rounds, many.rounds, strict=True):
        assert (a.tokens, a.accepted, a.drafted) == (b.tokens, b.accepted, b.drafted)
        assert a.verified.offered_by_depth == b.verified.offered_by_depth
        assert a.verified.accepted_by_depth == b.verified.accepted_by_depth
    assert any(done.accepted > 2 for done in one.rounds)
    logits = [target.forward(each.state, [5]).logits.copy() for each in (one, many)]
    assert np.array_equal(*logits), "the keys of the accepted paths differ"
    many.state.discard()


def test_what_cannot_be_is_refused(
    native: dict[Format, tuple[Decoder, Decoder]], tiny: Decoder
) -> None:
    target = native[Format.Q8][0]
    state = target.new_state(4)
    draws = Sampler(SamplingParams()).native(target.config.vocab_size)
    assert draws is not None

    def asked(nodes: list[int], parents: list[int]) -> tuple[NativeDraws, VerifyRequest]:
        return draws, VerifyRequest(nodes, parents, [5], limit=1)

    with pytest.raises(ValueError, match="room"):
        target.verify(state, *asked([5] * 70, [-1] * 70))
    with pytest.raises(ValueError, match="impossible"):
        target.verify(state, *asked([5, 6], [-1, 1]))
    with pytest.raises(TypeError, match="another backend"):
        tiny.verify(state, *asked([5], [-1]))
    assert len(state) == 0
    target.verify(state, *asked([5], [-1]))
    assert list(state.tokens) == [5]


def test_logits_that_are_no_numbers_end_the_answer(
    native: dict[Format, tuple[Decoder, Decoder]], monkeypatch: pytest.MonkeyPatch
) -> None:
    target = native[Format.Q8][0]
    segment = target.segments[0]
    poison = np.full(64, np.nan, dtype=np.float32)
    monkeypatch.setattr(segment._struct, "final_norm", poison.ctypes.data, raising=True)
    with pytest.raises(InvalidLogits):
        decode(target, [3, 4, 5], SamplingParams(), max_tokens=3)
