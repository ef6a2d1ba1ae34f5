"""Series, thinning out and scales: nothing measured is hidden, nothing unmeasured is drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.performance.series import Scale, Series, decimate, nice_ceiling, unbroken

POINTS = st.lists(st.tuples(st.floats(0, 300), st.floats(-1e6, 1e6)), min_size=1, max_size=800)


def runs(series: Series, start: float = -math.inf) -> list[list[tuple[float, float]]]:
    return [
        list(zip(t.tolist(), v.tolist(), strict=True)) for t, v in unbroken(*series.since(start))
    ]


@given(points=POINTS, column=st.sampled_from([1.0, 2.0, 7.5]))
def test_decimation_keeps_each_columns_extremes(
    points: list[tuple[float, float]], column: float
) -> None:
    points.sort(key=lambda p: p[0])
    x, y = (np.array(c) for c in zip(*points, strict=True))
    thin_x, thin_y = decimate(x, y, column)
    assert (np.diff(thin_x) >= 0).all()
    assert set(thin_x) <= set(x)
    for number in np.unique(np.floor(x / column)):
        here, there = np.floor(x / column) == number, np.floor(thin_x / column) == number
        assert y[here].min() == thin_y[there].min()
        assert y[here].max() == thin_y[there].max()
        if len(thin_x) < len(x):
            assert there.sum() <= 2


def test_one_spike_among_thousands_survives() -> None:
    x = np.linspace(0, 200, 20_000, endpoint=False)
    y = np.ones_like(x)
    y[12_345] = 50
    thin_x, thin_y = decimate(x, y)
    assert len(thin_x) <= 400
    assert thin_y.max() == 50


def test_missing_and_late_samples_break_the_line() -> None:
    series = Series(max_gap=3)
    for at, value in [(0, 1), (1, 2), (2, None), (3, None), (4, 5), (8, 6), (7, 99)]:
        series.append(at, value)
    assert runs(series) == [[(0, 1), (1, 2)], [(4, 5)], [(8, 6)]]
    series.interrupt()
    series.interrupt()
    series.append(9, 7)
    assert runs(series)[-1] == [(9, 7)]
    assert series.last == 7


def test_window_starts_with_the_sample_before_it() -> None:
    series = Series(capacity=50)
    for at in range(100):
        series.append(at, at * 2)
    times, _ = series.since(90.5)
    assert times.tolist() == list(range(90, 100))
    assert series.peak(90.5) == 198
    assert series.since(-5)[0][0] == 50
    series.clear()
    assert runs(series) == []
    assert series.peak(0) == 0


@pytest.mark.parametrize(
    ("value", "ceiling"),
    [(0, 1), (-3, 1), (1, 1), (1.1, 2), (3, 4), (4.0001, 6), (7, 10), (61, 100), (0.03, 0.04)],
)
def test_nice_ceilings(value: float, ceiling: float) -> None:
    assert nice_ceiling(value) == pytest.approx(ceiling)


@given(st.floats(1e-6, 1e9))
def test_nice_ceiling_is_close_above(value: float) -> None:
    assert value * (1 - 1e-9) <= nice_ceiling(value) <= 2.0001 * value


def test_scale_grows_at_once_and_shrinks_late() -> None:
    scale = Scale(10)
    assert [scale.fit(peak) for peak in (8, 11, 9, 8.1, 7, 0)] == [10, 20, 20, 20, 10, 10]
    fixed = Scale(100, fixed=True)
    assert [fixed.fit(peak) for peak in (3, 140)] == [100, 100]
