"""Answers of everyday length, one after the other: never far from the best fixed depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from virtual_time import Text, Timed, at_fixed_depths, busy, calm, plainly, texts, write

from engine.speculative.controller import Controller

ANSWERS = 10
LENGTHS = (64, 128, 256)
SLOWER, WORSE = 0.8, 0.8
"""How wrong the plan is before anything is measured."""

Noise = Callable[[int], Iterator[float]]
Milliseconds = tuple[tuple[int, float], ...]

STARTER = ((1, 3.9), (2, 4.1), (4, 4.8), (8, 6.3), (16, 12.0), (32, 23.0))
LARGER = ((1, 32.0), (2, 33.0), (4, 36.0), (8, 44.0), (16, 70.0), (32, 135.0))
UNEVEN = (
    *((1, 28.7), (2, 30.1), (3, 31.0), (4, 34.7), (5, 34.9), (6, 41.2), (7, 43.1), (8, 47.9)),
    *((9, 56.3), (16, 92.2), (32, 180.0)),
)
"""As a real target was measured: some rows cost nothing, the one behind them more than all."""
AVX2 = ((1, 3.3), (2, 3.4), (3, 4.0), (4, 4.6), (5, 5.7), (8, 8.1), (16, 15.0), (32, 30.0))
"""The starter without AVX-512: from the third on rows cost."""
TINY = ((1, 0.13), (2, 0.18), (4, 0.3), (8, 0.42), (16, 0.8), (32, 1.6))

PAIRS = {
    "starter": (STARTER, 0.4, 0.2),
    "larger, quick draft": (LARGER, 1.3, 0.3),
    "larger, slow draft": (LARGER, 8.0, 0.3),
}
"""Of each, T(n), a drafted level and a round's drafting besides, in milliseconds."""


def pair_of(
    verify: Milliseconds, level: float, begin: float, acceptance: float, spread: float | None = None
) -> Timed:
    """A pair by its milliseconds."""
    seconds = tuple((rows, each / 1e3) for rows, each in verify)
    return Timed(seconds, level / 1e3, begin / 1e3, acceptance, spread)


def first_ever(pair: Timed) -> Controller:
    """Nothing is known but what the plan expects, wrongly."""
    return Controller(pair.expectation(SLOWER, WORSE))


def known(pair: Timed, noise: Noise) -> Controller:
    """The same after three answers and a new start."""
    before = first_ever(pair)
    for seed in range(900, 903):
        write(pair, Text.of(pair, 128, seed), 128, before, noise(seed))
    again = first_ever(pair)
    again.recall(before.learnt)
    return again


def seconds(pair: Timed, tokens: int, controller: Controller, noise: Noise) -> list[float]:
    """Of answers in a row, in which the controller goes on learning."""
    return [
        write(pair, text, tokens, controller, noise(number))
        for number, text in enumerate(texts(pair, tokens, ANSWERS))
    ]


@pytest.mark.release(keep=3, reason="every pair")
@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("acceptance", [0.5, 0.7, 0.9])
@pytest.mark.parametrize("name", PAIRS)
def test_answers_are_as_fast_as_at_the_best_fixed_depth(
    name: str, acceptance: float, tokens: int
) -> None:
    pair = pair_of(*PAIRS[name], acceptance)
    best = min(*at_fixed_depths(pair, tokens, ANSWERS), plainly(pair, tokens, ANSWERS))
    assert best / sum(seconds(pair, tokens, first_ever(pair), calm)) >= 0.97
    assert best / sum(seconds(pair, tokens, known(pair, calm), calm)) >= 0.97


@pytest.mark.release(keep=1, reason="every length")
@pytest.mark.parametrize("tokens", LENGTHS)
def test_a_dear_row_ahead_does_not_end_usual_paths(tokens: int) -> None:
    pair = pair_of(UNEVEN, 1.65, 0.3, 0.8)
    best = min(at_fixed_depths(pair, tokens, ANSWERS))
    assert best / sum(seconds(pair, tokens, first_ever(pair), calm)) >= 0.98
    assert best / sum(seconds(pair, tokens, known(pair, calm), calm)) >= 0.98


@pytest.mark.release(keep=1, reason="every pair")
@pytest.mark.parametrize("name", PAIRS)
def test_a_draft_that_knows_when_it_is_right_beats_every_fixed_depth(name: str) -> None:
    pair = pair_of(*PAIRS[name], 0.7, spread=3.0)
    best = min(at_fixed_depths(pair, 128, ANSWERS))
    assert best / sum(seconds(pair, 128, known(pair, calm), calm)) >= 1.01


@pytest.mark.release(keep=1, reason="thousands of rounds for each")
@pytest.mark.parametrize("tokens", LENGTHS)
@pytest.mark.parametrize("acceptance", [0.5, 0.7])
def test_drafting_that_cannot_pay_costs_nothing(acceptance: float, tokens: int) -> None:
    pair = pair_of(TINY, 0.03, 0.1, acceptance)
    plain = plainly(pair, tokens, ANSWERS)
    assert plain < min(at_fixed_depths(pair, tokens, ANSWERS)), "it cannot pay"
    controller = known(pair, calm)
    assert controller.fallback_reason is not None
    assert plain / sum(seconds(pair, tokens, controller, calm)) >= 0.99
    assert plain / sum(seconds(pair, tokens, first_ever(pair), calm)) >= 0.985


@pytest.mark.release(keep=1, reason="every pair")
@pytest.mark.parametrize("name", PAIRS)
def test_the_first_answer_ever_is_near_the_best(name: str) -> None:
    """One plain round teaches T(1), and beliefs come right within a few more."""
    pair = pair_of(*PAIRS[name], 0.8)
    best = min(at_fixed_depths(pair, 64, ANSWERS))
    firsts = [
        write(pair, text, 64, first_ever(pair), calm(number))
        for number, text in enumerate(texts(pair, 64, ANSWERS))
    ]
    assert best / sum(firsts) >= 0.93


@pytest.mark.release(keep=1, reason="every pair")
@pytest.mark.parametrize("name", PAIRS)
def test_other_programs_do_not_mislead_it(name: str) -> None:
    """Everything takes 1.8 times as long half of the time, and moments far longer."""
    pair = pair_of(*PAIRS[name], 0.7)
    best = min(at_fixed_depths(pair, 128, ANSWERS))
    assert best / sum(seconds(pair, 128, known(pair, busy), busy)) >= 0.9


HELD = ((1, 5.8), (2, 10.0), (3, 13.2), (4, 16.6), (5, 20.0), (8, 30.0), (16, 60.0), (32, 120.0))
"""The starter beside a program that holds a core: rows, which want both, cost far more than one."""


def after_others(pair: Timed, answers: int, seed: int) -> tuple[Controller, list[float]]:
    """Ten answers, then some while others hold a core; the seconds of these, were that not so."""
    controller = first_ever(pair)
    for number in range(10):
        write(pair, Text.of(pair, 96, seed + number), 96, controller, calm(number))
    held = replace(pair, verify=tuple((rows, each / 1e3) for rows, each in HELD), level=1.5e-3)
    spent = [
        write(held, Text.of(pair, 96, seed - number), 96, controller, calm(number))
        for number in range(answers)
    ]
    return controller, spent


def test_what_was_learnt_while_others_held_the_processor_is_soon_forgotten() -> None:
    """Drafting did not pay meanwhile. A trial or two are enough to see that it does again."""
    pair = pair_of(AVX2, 0.31, 0.2, 0.55, spread=2.0)
    plain, gains = plainly(pair, 96, 1), list[float]()
    for seed in range(100, 500, 100):
        controller, _ = after_others(pair, 20, seed)
        assert controller.fallback_reason is not None, "it has learnt so"
        gains += [
            plain / write(pair, Text.of(pair, 96, seed + 50 + n), 96, controller, calm(n))
            for n in range(12)
        ][-4:]
        assert controller.fallback_reason is None
    assert sum(gains) / len(gains) > 1.2


def test_drafting_that_cannot_pay_costs_nothing_after_others_either() -> None:
    """What is forgotten is tried no more often than before."""
    pair = pair_of(AVX2, 0.6, 0.2, 0.2, spread=2.0)
    assert plainly(pair, 96, ANSWERS) < min(at_fixed_depths(pair, 96, ANSWERS)), "it cannot pay"
    plain = plainly(pair, 96, 1)
    for seed in range(100, 500, 100):
        controller, spent = after_others(pair, 20, seed)
        alone = HELD[0][1] / 1e3 * 95
        assert alone * len(spent) / sum(spent) >= 0.985
        later = [
            write(pair, Text.of(pair, 96, seed + 50 + n), 96, controller, busy(n))
            for n in range(20)
        ]
        assert plain * len(later) / sum(later) >= 0.985


def test_moments_of_other_programs_never_end_drafting() -> None:
    """What only plain rounds measure must not drift away from what only drafting does."""
    pair = pair_of(*PAIRS["starter"], 0.5, spread=2.0)
    controller, plain = first_ever(pair), plainly(pair, 128, 1)
    gains = [
        plain / write(pair, Text.of(pair, 128, number % 8), 128, controller, busy(number))
        for number in range(100)
    ]
    assert min(gains[1:]) > 1.1
    assert sum(gains[50:]) >= 0.97 * sum(gains[:50])
