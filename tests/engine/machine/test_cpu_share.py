"""What other programs take of the CPU."""

from __future__ import annotations

from collections.abc import Iterator
from time import process_time

import psutil
import pytest

from engine.machine import cpu_share
from engine.machine.cpu_share import CpuShare


@pytest.mark.parametrize(
    ("idle", "ours", "share"),
    [(4.0, 0.0, 0.0), (1.0, 2.0, 25.0), (0.0, 1.0, 75.0), (3.9, 0.2, 0.0)],
)
def test_what_is_neither_idle_nor_ours_is_others(
    monkeypatch: pytest.MonkeyPatch, idle: float, ours: float, share: float
) -> None:
    """Two seconds of two cores; readings that do not quite add up are no negative share."""
    read: Iterator[tuple[float, ...]] = iter([(5.0, 70.0, 9.0), (7.0, 70.0 + idle, 9.0 + ours)])
    monkeypatch.setattr(cpu_share, "_readings", lambda: next(read))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 2)
    assert CpuShare().of_others() == pytest.approx(share)


def test_a_moment_tells_nothing() -> None:
    assert CpuShare().of_others() is None


def test_our_own_work_is_ours() -> None:
    before = cpu_share._readings()
    end = process_time() + 0.1
    while process_time() < end:
        pass
    after = cpu_share._readings()
    assert before is not None
    assert after is not None
    assert after[2] - before[2] >= 0.08
