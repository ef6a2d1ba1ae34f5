"""Sampler: greedy, filters, penalties, noise; all as functions of their arguments alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.backend.noise import gumbel, gumbel_row, philox4x32
from engine.backend.ranking import rank
from engine.errors import InvalidLogits
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler


def logits(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def test_philox_gives_the_published_words() -> None:
    """Known answers of Random123's philox4x32-10."""

    def words(*values: int) -> tuple[np.ndarray, ...]:
        return tuple(np.array([value], dtype=np.uint64) for value in values)

    zero = philox4x32(words(0, 0, 0, 0), (0, 0))  # type: ignore[arg-type]
    assert [int(w[0]) for w in zero] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = philox4x32(words(*[0xFFFFFFFF] * 4), (0xFFFFFFFF, 0xFFFFFFFF))  # type: ignore[arg-type]
    assert [int(w[0]) for w in ones] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_noise_belongs_to_the_token_wherever_it_is_asked_for() -> None:
    row = gumbel_row(7, 30, 500)
    some = gumbel(7, 30, np.array([499, 3, 77]))
    assert np.array_equal(some, row[[499, 3, 77]])
    assert not np.array_equal(gumbel_row(7, 31, 500), row)
    assert not np.array_equal(gumbel_row(8, 30, 500), row)
    assert not np.array_equal(gumbel_row(7 + 2**32, 30, 500), row)
    with pytest.raises(ValueError, match="read-only"):
        row[0] = 0


def test_greedy_takes_the_best_and_the_lowest_id_on_ties() -> None:
    sampler = Sampler(SamplingParams())
    assert sampler.draw(logits(0.0, 2.0, 2.0, 1.0), [0]) == 1


def test_a_draw_depends_on_nothing_but_its_arguments() -> None:
    params = SamplingParams(temperature=0.9, seed=4, top_p=0.95, presence_penalty=0.2)
    values = np.random.default_rng(0).normal(0, 2, 64).astype(np.float32)
    before = values.copy()
    fresh, used = Sampler(params), Sampler(params)
    for length in range(1, 20):
        used.draw(values, list(range(length)))
    assert fresh.draw(values, [1, 2], [3]) == used.draw(values, [1, 2, 3])
    assert np.array_equal(values, before), "the logits were changed"


@given(st.data())
def test_what_the_filters_keep(data: st.DataObject) -> None:
    size = data.draw(st.integers(2, 40))
    values = data.draw(
        st.lists(st.floats(-8, 8, width=16), min_size=size, max_size=size).map(
            lambda row: np.array(row, dtype=np.float32)
        )
    )
    top_k = data.draw(st.integers(1, size))
    sampler = Sampler(SamplingParams(temperature=1.0, top_k=top_k))
    ranked = sorted(range(size), key=lambda token: (-values[token], token))[:top_k]
    for position in range(5):
        assert sampler.draw(values, [0] * (position + 1)) in ranked


def test_top_p_keeps_the_token_that_crosses_it() -> None:
    probabilities = np.log(np.array([0.5, 0.3, 0.15, 0.05])).astype(np.float32)
    drawn = {
        Sampler(SamplingParams(temperature=1.0, top_p=0.7, seed=seed)).draw(probabilities, [0])
        for seed in range(200)
    }
    assert drawn == {0, 1}


def test_penalties_see_the_path() -> None:
    values = logits(3.0, 2.9, 0.0)
    sampler = Sampler(SamplingParams(repetition_penalty=1.5), answer_start=0)
    assert sampler.draw(values, [2]) == 0
    assert sampler.draw(values, [2], [0]) == 1


def test_presence_and_frequency_count_the_answer_only() -> None:
    values = logits(3.0, 2.5, 0.0)
    sampler = Sampler(SamplingParams(frequency_penalty=0.4), answer_start=3)
    assert sampler.draw(values, [0, 0, 0]) == 0, "the prompt was counted"
    assert sampler.draw(values, [0, 0, 0, 0], [0]) == 1


def test_rank_is_a_distribution_and_shares_the_noise() -> None:
    rows = np.random.default_rng(1).normal(0, 2, (3, 64)).astype(np.float32)
    params = SamplingParams(temperature=0.7, seed=9)
    shared, apart = Sampler(params), Sampler(params, share_noise=False)
    weights = rank(rows, 5, shared.ranking)
    np.testing.assert_allclose(np.exp(weights).sum(axis=1), 1, rtol=1e-5)
    # A draft that equals the target ranks the target's own draw first.
    assert [int(row.argmax()) for row in weights] == [shared.draw(row, [0] * 5) for row in rows]
    assert [int(row.argmax()) for row in rank(rows, 5, apart.ranking)] == rows.argmax(
        axis=1
    ).tolist()


def test_without_the_native_library_numpy_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(3).normal(0, 2, 300).astype(np.float32)
    params = SamplingParams(temperature=0.8, top_p=0.9, seed=2)
    here = Sampler(params).draw(values, [1, 2])
    monkeypatch.setattr("engine.speculative.sampler.native_is_built", lambda: False)
    elsewhere = Sampler(params)
    assert elsewhere.native(300) is None
    assert elsewhere.draw(values, [1, 2]) == here


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_numbers_that_are_none_are_an_error(bad: float) -> None:
    with pytest.raises(InvalidLogits):
        Sampler(SamplingParams()).draw(logits(0.0, bad), [0])


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"min_p": 2.0},
        {"repetition_penalty": 0.0},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_impossible_parameters_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        SamplingParams(**wrong)  # type: ignore[arg-type]
