"""While the target verifies, the draft computes: what the rounds tell of both."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter, sleep
from typing import Any

import pytest
from harness import beside

from engine.backend.decoder import Decoder
from engine.backend.native.pool import CancelFlag
from engine.backend.prefix_cache import PrefixCache
from engine.backend.round import Expanded, Ranking, Round, Verified
from engine.backend.sequence import SequenceState
from engine.bench.forward import random_subject
from engine.bench.lanes import overlap
from engine.bench.scripted_draft import Script, ScriptedDraft
from engine.bench.shapes import draft_shape, shape
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.decoding import Decoding
from engine.speculative.draft_worker import ParallelDraft
from engine.speculative.loops import Loop, Parallel, Plain
from engine.speculative.sampler import Sampler

VERIFY_S, STEP_S = 0.05, 0.005
PROMPT = [token % 97 for token in range(24)]
TOKENS = 16
SLOWER = (1, 1, 1, 2, 4, 8)
"""How much longer all of it takes, attempt by attempt: the same shares, of a coarser clock."""


class PacedTarget(Decoder):
    """A target whose verifications take a told time, in which it uses no processor."""

    seconds = 0.0

    def verify(self, *arguments: Any, **more: Any) -> Verified:
        end = perf_counter() + self.seconds
        verified = super().verify(*arguments, **more)
        sleep(max(end - perf_counter(), 0.0))
        return verified


class PacedDraft(ScriptedDraft):
    """A draft whose steps take a told time."""

    seconds = 0.0

    def expand(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
        features: Floats | None = None,
    ) -> Expanded | None:
        end = perf_counter() + self.seconds
        found = super().expand(state, tokens, parents, wanted, ranking, width, cancel, features)
        sleep(max(end - perf_counter(), 0.0))
        return found


def write(target: Decoder, loop: Loop, tokens: int) -> tuple[list[int], list[Round]]:
    """A greedy answer, and its rounds."""
    sampler = Sampler(SamplingParams(), len(PROMPT))
    state = target.new_state(len(PROMPT) + tokens)
    decoding = Decoding(target, state, PROMPT, sampler, max_tokens=tokens)
    with loop.rounds(decoding) as rounds:
        for _ in decoding.prefill():
            pass
        done = list(rounds)
    return decoding.tokens[len(PROMPT) :], done


@pytest.mark.release(reason="a busy machine may let the draft's thread wait")
def test_the_draft_computes_while_the_target_verifies() -> None:
    """At least four fifths of the time; a machine that has no time for us gets more chances."""
    config = draft_shape(shape("llama2-7b"), 64, 2)
    own, other = (random_subject(config, "q4_0", threads=1, seed=seed).decoder for seed in (0, 1))
    target, draft = PacedTarget(own.config, own.segments), PacedDraft(other)
    text, _ = write(target, Plain(), 2 * TOKENS)
    draft.script = Script.write([*PROMPT, *text], config.vocab_size, 0.8, seed=1)
    lane = ParallelDraft(draft, PrefixCache(draft, 128))
    shares = []
    for times in SLOWER:
        target.seconds, draft.seconds = times * VERIFY_S, times * STEP_S
        written, rounds = write(
            target, Parallel(lane, beside(costs=lane.costs, ahead=True)), TOKENS
        )
        assert written == text[:TOKENS]
        assert any(done.accepted for done in rounds)
        spent = sum(span.seconds for done in rounds for span in done.drafting)
        assert sum(done.useful + done.wasted for done in rounds) <= spent + 1e-9
        shares.append(overlap(rounds))
        if shares[-1] >= 0.8:
            break
    assert max(shares) >= 0.8
