"""The parts of a device's memory: they fill the bar, and nobody's are lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PySide6.QtCore import QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from app.theme.theme import Theme, current
from app.widgets.memory_parts import OURS, MemoryPart, Stack, stacked
from app.widgets.stack_bar import paint_part, paint_stack
from engine.machine.memory import DeviceMemory

SIZES = st.integers(0, 2**36)
HELD = st.builds(
    DeviceMemory,
    st.just("cuda:0"),
    SIZES,
    target=SIZES,
    draft=SIZES,
    kv=SIZES,
    workspace=SIZES,
    runtime=SIZES,
    features=SIZES,
)


@settings(deadline=None, max_examples=60)
@given(HELD, st.integers(1, 2**37), SIZES, SIZES)
def test_nothing_is_lost_and_the_rest_is_free(
    held: DeviceMemory, total: int, others: int, reserve: int
) -> None:
    stack = stacked(held, total, others, reserve)
    assert stack.ours == held.total
    assert stack.of(MemoryPart.OTHERS) == min(others, total)
    assert stack.of(MemoryPart.RESERVE) <= reserve
    assert stack.of(MemoryPart.FREE) == 0 or stack.of(MemoryPart.RESERVE) == reserve
    assert sum(each.nbytes for each in stack.segments) == total + stack.over
    assert stack.over == max(held.total + min(others, total) - total, 0)


@settings(deadline=None, max_examples=60)
@given(HELD, st.integers(1, 2**37), SIZES, st.integers(1, 2000))
def test_segments_lie_side_by_side(held: DeviceMemory, total: int, others: int, width: int) -> None:
    edges = stacked(held, total, others).edges(width)
    assert edges[0][1] == 0
    assert edges[-1][2] == width
    for (_, left, right), (_, following, _) in pairwise([*edges, (edges[-1][0], width, width)]):
        assert left <= right == following


def test_an_empty_device_is_free() -> None:
    assert [each.part for each in stacked(None, 100, 0).segments] == [MemoryPart.FREE]
    assert Stack(0, ()).edges(100) == []


def painted(part: MemoryPart) -> QImage:
    image = QImage(24, 24, QImage.Format.Format_RGB32)
    image.fill(QColor(current().window))
    painter = QPainter(image)
    paint_part(painter, QRectF(0, 0, 24, 24), part)
    painter.end()
    return image


@pytest.mark.usefixtures("theme")
def test_every_part_looks_different_without_colour() -> None:
    shapes = set()
    for part in MemoryPart:
        image = painted(part)
        ink = image.pixelColor(0, 0) if part not in OURS[:1] else QColor()
        shapes.add(
            tuple(image.pixelColor(x, y) == ink for x in range(4, 20) for y in range(4, 20))
            if part is not MemoryPart.TARGET
            else "solid"
        )
    assert len(shapes) == len(MemoryPart)


def test_a_bar_is_painted_from_the_left(theme: Theme) -> None:
    held = DeviceMemory("cuda:0", 100, target=50)
    image = QImage(100, 10, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    paint_stack(painter, QRectF(0, 0, 100, 10), stacked(held, 100, 20))
    painter.end()
    assert image.pixelColor(25, 5) == QColor(theme.tokens.verify)
    assert image.pixelColor(60, 5) == QColor(theme.tokens.sunken)
