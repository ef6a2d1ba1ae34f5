"""What vector.h promises of NaN and of rounding, on every instruction set."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from engine.backend.native.library import Isa, library, pointer

Floats = NDArray[np.float32]
ISAS = [isa for isa in Isa if library().dt_use_isa(isa) == 0]
pytestmark = [
    pytest.mark.usefixtures("isa_as_before"),
    pytest.mark.parametrize("isa", ISAS, ids=lambda isa: isa.name),
]
NAN, INF = np.nan, np.inf
SPECIAL = [
    *(NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 1.5, 3.4028235e38, -3.4028235e38),
    *(1.1754944e-38, 1e-45, -1e-45, 7e-39, 1.0000001, 0.99999994),
]


class Operation(IntEnum):
    """DT_LANES_ADD and so on."""

    ADD = 0
    MUL = 1
    DIV = 2
    FMA = 3
    MAX = 4
    MIN = 5
    SUM = 6
    TOP = 7
    ROUND = 8
    EXP = 9
    HALF = 10


def apply(isa: Isa, operation: Operation, *operands: Floats) -> Floats:
    """The operation on any number of numbers."""
    assert library().dt_use_isa(isa) == 0
    count = len(operands[0])
    zeros = np.zeros(-(-count // 16) * 16, np.float32)
    padded = [np.concatenate((x, zeros[count:])) for x in operands]
    padded += [zeros] * (3 - len(padded))
    out = np.empty_like(zeros)
    for at in range(0, count, 16):
        addresses = [pointer(np.ascontiguousarray(x[at : at + 16])) for x in (*padded, out)]
        library().dt_lanes(operation, *addresses)
    return out[:count]


def same(found: Floats, expected: Floats) -> None:
    """Same bits, where zeros have signs, and NaN for NaN."""
    numbers = ~np.isnan(expected)
    assert np.array_equal(np.isnan(found), ~numbers)
    assert np.array_equal(found[numbers].view(np.int32), expected[numbers].view(np.int32))


def pairs() -> tuple[Floats, Floats]:
    """Every special number with every other, and common ones."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((2, 400)) * np.exp2(rng.integers(-100, 100, (2, 400)))
    first, second = (np.array(x) for x in zip(*product(SPECIAL, SPECIAL), strict=True))
    both = np.concatenate((np.stack((first, second)), common), axis=1).astype(np.float32)
    return both[0], both[1]


PLAIN: dict[Operation, Callable[[Floats, Floats], Floats]] = {
    Operation.ADD: np.add,
    Operation.MUL: np.multiply,
    Operation.DIV: np.divide,
    Operation.MAX: lambda a, b: np.where(a > b, a, b),
    Operation.MIN: lambda a, b: np.where(a < b, a, b),
}


@pytest.mark.parametrize("operation", PLAIN, ids=lambda operation: operation.name)
def test_operations_are_ieee_s(isa: Isa, operation: Operation) -> None:
    first, second = pairs()
    with np.errstate(all="ignore"):
        expected = PLAIN[operation](first, second).astype(np.float32)
    same(apply(isa, operation, first, second), expected)


def test_fma_rounds_once(isa: Isa) -> None:
    """Sums next to a tie, which double would round to the tie first; and NaN, infinity."""
    a, tiny = 1 + 2.0**-12, 2.0**-80  # a * a = 1 + 2^-11 + 2^-24, between two floats
    below, above = 1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-23
    odd = 1 + 3 * 2.0**-12  # odd * a = 1 + 2^-10 + 3 * 2^-24, halfway above an odd float
    cases = [
        (a, a, 0.0, below),
        (a, a, tiny, above),
        (a, a, -tiny, below),
        (-a, a, -tiny, -above),
        (-a, a, tiny, -below),
        (odd, a, 0.0, 1 + 2.0**-10 + 2.0**-22),
        (odd, a, -tiny, 1 + 2.0**-10 + 2.0**-23),
        (2.0**-75, 2.0**-75, 0.0, 0.0),
        (2.0**-75, 2.0**-75, 2.0**-149, 2.0**-148),  # 1.5 times the smallest number: 2 is even
        (2.0**-75, -(2.0**-75), 2.0**-148, 2.0**-148),
        (2.0**100, 2.0**100, 0.0, INF),
        (2.0**100, -(2.0**100), INF, INF),
        (INF, 0.0, 1.0, NAN),
        (INF, 1.0, -INF, NAN),
        (NAN, 1.0, 1.0, NAN),
        (0.0, -1.0, -0.0, -0.0),
    ]
    first, second, third, expected = np.array(cases, np.float32).T.copy()
    same(apply(isa, Operation.FMA, first, second, third), expected)


def test_fma_of_common_numbers(isa: Isa) -> None:
    """Against integers, which Python adds and divides without rounding before the end."""
    rng = np.random.default_rng(1)
    whole = rng.integers(-(2**24), 2**24, (3, 500))
    third = whole[2] * 2 ** rng.integers(0, 39, 500)
    third = np.float32(third).astype(np.int64)  # a float's bits
    exact = [int(a) * int(b) + int(c) for a, b, c in zip(whole[0], whole[1], third, strict=True)]
    expected = np.array([nearest(value) for value in exact], np.float32)
    same(
        apply(isa, Operation.FMA, *whole[:2].astype(np.float32), third.astype(np.float32)), expected
    )


def nearest(value: int) -> float:
    """The float next to a whole number, the even one of two."""
    spare = max(abs(value).bit_length() - 24, 0)
    kept, rest = abs(value) >> spare, abs(value) & ((1 << spare) - 1)
    kept += 2 * rest + (kept & 1) > 1 << spare
    return float((kept << spare) * (-1 if value < 0 else 1))


def test_whole_numbers_are_the_nearest_and_the_even_ones_of_two(isa: Isa) -> None:
    x = np.array(
        [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388607.5, -127.5, 126.5], np.float32
    )
    same(
        apply(isa, Operation.ROUND, x), np.rint(x) + np.float32(0)
    )  # an integer's zero has no sign


def test_fp16_rounds_to_nearest_even(isa: Isa) -> None:
    every = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)
    between = (every[:-1] + every[1:]) / 2  # ties
    x = np.concatenate((every, between, np.nextafter(between, 0), np.nextafter(between, 1e9)))
    x = np.concatenate((x, -x, np.array([65519.996, 65520, INF, -INF, NAN, 3e38, 1e-45])))
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        expected = x.astype(np.float16).astype(np.float32)
    same(apply(isa, Operation.HALF, x), expected)


def test_sum_and_top_go_by_halves(isa: Isa) -> None:
    rng = np.random.default_rng(2)
    for special in (None, NAN, INF, -0.0):
        x = rng.standard_normal(16).astype(np.float32)
        if special is not None:
            x[rng.integers(16)] = special
        sums, tops = x, x
        for half in (8, 4, 2, 1):
            sums = sums[:half] + sums[half : 2 * half]
            tops = np.where(tops[:half] > tops[half : 2 * half], tops[:half], tops[half : 2 * half])
        same(apply(isa, Operation.SUM, x)[:1], sums)
        same(apply(isa, Operation.TOP, x)[:1], tops)


def test_exp_of_everything(isa: Isa) -> None:
    x = np.concatenate((np.array(SPECIAL), np.linspace(-100, 100, 801))).astype(np.float32)
    found = apply(isa, Operation.EXP, x)
    clamped = np.clip(np.where(np.isnan(x), 88, x), -87, 88).astype(np.float64)
    np.testing.assert_allclose(found, np.exp(clamped), rtol=2e-7)
    same(found, apply(ISAS[0], Operation.EXP, x))
