"""What penalties take is counted as the sampler takes it, however the answer grows."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.segment import Floats
from engine.decode.penalties import SaidTokens
from engine.decode.sampler import Sampler
from engine.request import SamplingParams

VOCAB = 400
tokens = st.lists(st.integers(0, VOCAB - 1), max_size=600)
settings = st.builds(
    SamplingParams,
    repetition_penalty=st.sampled_from([0.8, 1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, -0.5, 1.0]),
    frequency_penalty=st.sampled_from([0.0, 0.4]),
)


def applied(said: SaidTokens, logits: Floats) -> Floats:
    """As engine/native/draft.c does it."""
    row = logits.copy()
    for token, minus in zip(said.said[: said.count], said.minus[: said.count], strict=True):
        score = np.float64(row[token])
        score = score / said.repetition if score > 0 else score * said.repetition
        row[token] = np.float32(score - minus)
    return row


@given(params=settings, start=st.integers(0, 300), first=tokens, more=tokens, other=tokens)
def test_it_follows_an_answer(
    params: SamplingParams, start: int, first: list[int], more: list[int], other: list[int]
) -> None:
    logits = np.random.default_rng(0).normal(size=VOCAB).astype(np.float32) * 4
    sampler, said = Sampler(params, start, native=False), SaidTokens(params, start)
    answer: list[int] = []
    for sequence, new in ((answer, first), (answer, more), (other, [])):
        sequence.extend(new)
        said.follow(sequence)
        assert said.count == len(set(sequence))
        right = sampler._penalise(logits, sequence, ())
        assert np.array_equal(applied(said, logits), right)
