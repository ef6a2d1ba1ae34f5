"""Planted bugs of finding out what a machine is and how fast; see `bugs`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any

from planting import everywhere


def limits_of_outer_groups_ignored() -> None:
    """A container's own group has no limit; the one around it has."""
    from engine.machine import cgroup

    honest = cgroup._groups
    cgroup._groups = lambda files, controller: islice(honest(files, controller), 1)


def values_beyond_halves_kept() -> None:
    """Zero times infinity: rows that cannot see such a value have no numbers either."""
    everywhere(
        "engine.backend.accelerator.attention",
        "as_kept",
        lambda keys, values, number: (keys.to(number), values.to(number)),
    )


def speeds_of_other_cards_kept() -> None:
    """Speeds on disk by the processor alone: with another card in the machine they are wrong."""
    from engine.devices import kept_measurements

    honest = kept_measurements.identity

    def identity(machine: Any, threads: int) -> str:
        return honest(replace(machine, accelerators=()), threads)

    kept_measurements.identity = identity


def calibration_deaf_to_a_stop() -> None:
    """A stop is noticed between stages, not between forwards."""
    from engine.devices.calibration.timing import Course

    def seconds(self: Any, work: Callable[[], None]) -> float:
        start = self.clock()
        work()
        return float(self.clock() - start)

    Course.seconds = seconds  # type: ignore[method-assign]
