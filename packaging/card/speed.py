"""What forwards of a shape cost on one stack, format by format: the figures that decide."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from card.models import config_of, opened
from card.steps import FORMATS, Check

if TYPE_CHECKING:
    from engine.backend.device import Device

LEAST_S = 12.0
"""Seconds that one more format needs."""


def run(check: Check, stack: str, shape: str) -> None:
    """Measure the formats as long as there is time."""
    from engine.errors import DeviceLost, UserFixable

    device = opened(check, stack)
    said: list[str] = []
    try:
        for wanted in FORMATS:
            if check.left < LEAST_S and said:
                check.emit("left out", format=wanted, why="no time left")
                continue
            try:
                said.append(_measure(check, device, stack, shape, wanted))
            except DeviceLost:
                raise
            except UserFixable as error:  # as where it does not fit
                said.append(f"{wanted}: {check.fail(error, format=wanted)}")
            check.say("; ".join(said))
    finally:
        device.close()


def _measure(check: Check, device: Device, stack: str, shape: str, wanted: str) -> str:
    from engine.bench.device_speed import (
        LoadTime,
        SpeedSizes,
        TimedPrefill,
        TimedRounds,
        measure_speed,
    )

    sizes = SpeedSizes()
    if check.rehearse:
        sizes = SpeedSizes((1, 2, 32), (24, 96), (24, 48), seconds=0.1, least=1)
    found: dict[str, object] = {"stack": stack, "shape": shape, "format": wanted}
    words = ""
    started = time.monotonic()
    for part in measure_speed(device, config_of(check, shape), wanted, sizes):
        check.emit(type(part).__name__, **found, **asdict(part))
        if isinstance(part, LoadTime):
            words = f"{wanted} loaded in {part.seconds:.1f} s"
        elif isinstance(part, TimedRounds) and len(part.seconds) > 1:
            words = f"{wanted} T(1) {1e3 * part.seconds[1]:.2f} ms"
        elif isinstance(part, TimedPrefill):
            words += f", {part.tokens / part.seconds:,.0f} tokens/s of {part.tokens}"
        if check.left < 3:
            break
    check.emit("measured", **found, seconds=time.monotonic() - started)
    return words
