"""Sides take turns, warm up after every switch, and are asleep while others are measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from native_models import native_decoder

from engine.backend.native.library import Format
from engine.bench.forward import CONTEXT, DecoderSide, forwards_in_turns, prefills_in_turns


class FakeSide:
    """Forwards of n tokens take n times its own pace."""

    def __init__(self, name: str, pace: float, log: list[str]) -> None:
        self.name, self.pace, self.log = name, pace, log
        self.is_awake = False

    @contextmanager
    def awake(self) -> Iterator[None]:
        self.is_awake = True
        yield
        self.is_awake = False

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        assert self.is_awake
        self.log.append(f"{self.name}{runs}x{tuple(counts)}")
        return [[self.pace * count] * runs for count in counts]

    def prefills(self, runs: int) -> list[float]:
        assert self.is_awake
        self.log.append(f"{self.name}{runs}p")
        return [self.pace * CONTEXT] * runs


def test_forwards() -> None:
    log: list[str] = []
    sides = [FakeSide("a", 1.0, log), FakeSide("b", 2.0, log)]
    ours, peers = forwards_in_turns(sides, (1, 8), runs=6)
    assert ours == {1: 1.0, 8: 8.0}
    assert peers == {1: 2.0, 8: 16.0}
    warm_up = ["a2x(1,)", "b2x(1,)"]
    first = [warm_up[0], "a4x(1, 8)", warm_up[1], "b4x(1, 8)"]
    second = [warm_up[0], "a2x(1, 8)", warm_up[1], "b2x(1, 8)"]
    assert log == first + second


def test_prefills() -> None:
    log: list[str] = []
    sides = [FakeSide("a", 0.5, log), FakeSide("b", 0.25, log)]
    assert prefills_in_turns(sides, runs=2) == pytest.approx([2.0, 4.0])
    assert [line for line in log if line.endswith("p")] == ["a1p", "b1p", "a1p", "b1p"]


def test_a_long_context_has_the_keys_of_a_short_one_again(chat_model: Path) -> None:
    length = 2 * CONTEXT + 7
    side = DecoderSide(native_decoder(chat_model, Format.Q8), length)
    ((spent,),) = side.forwards((1,), 1)
    assert spent > 0
    state = side._state
    assert len(state) == length
    assert list(state.tokens[CONTEXT : 2 * CONTEXT]) == list(state.tokens[:CONTEXT])
