"""Compares what answers reach with what the plan predicted, and tells when to plan again."""

from __future__ import annotations

from collections.abc import Mapping

from engine.backend.device import Device
from engine.backend.simulated.device import SimulatedDevice
from engine.commands import Mode
from engine.devices.kept_measurements import KeptReached
from engine.events import AnswerStats
from engine.loading.load import LoadedPair
from engine.loading.planned_load import PlannedLoad
from engine.machine.facts import Machine
from engine.machine.reached import FALLS_SHORT, WORTH_MOVING, PlacementKey, Reached
from engine.plan.planner import Planning

_ENOUGH = 32
"""Tokens of answers that tell the speed of a placement."""
_KEEP = 0.5
"""Share that earlier answers keep of what they count, with every answer."""
_IN_A_ROW = 2
"""Answers that have to fall short: a single one may have been unlucky."""


class PlacementWatch:
    """Follows the loaded pair of one engine, from whose thread it is called.

    A move costs what the next answer waits for, as the whole conversation is read again. So the
    model moves once staying has lost as much.

    Args:
        kept: where later plans find what was reached.
    """

    def __init__(self, kept: KeptReached) -> None:
        self._kept = kept
        self._planning: Planning | None = None
        self._machine: Machine | None = None
        self._tokens = self._seconds = 0.0
        self._read_s: float | None = None  # to read a token of a prompt
        self._short, self._lost_s = 0, 0.0
        self._better: PlacementKey | None = None
        self._moved = False

    def loaded(self, planned: PlannedLoad) -> None:
        """Follow a new pair."""
        self._moved, self._better = planned.plan.key == self._better, None
        self._planning, self._machine = planned.planning, planned.inspection.machine
        self._tokens = self._seconds = 0.0
        self._read_s, self._short, self._lost_s = None, 0, 0.0

    def answered(self, pair: LoadedPair, stats: AnswerStats) -> bool:
        """Take note of an answer; one that other programs disturbed says nothing.

        Returns:
            Whether the pair was placed by prediction, falls short of it, and another placement is
            predicted or known to be faster, by more than moving costs: planned again, it will lie
            there.
        """
        planning, machine, plan = self._planning, self._machine, pair.plan
        if planning is None or machine is None or plan.tokens_per_s is None or stats.disturbed:
            return False
        written = max(stats.committed - 1, 0)
        self._tokens = self._tokens * _KEEP + written
        self._seconds = self._seconds * _KEEP + stats.decode_seconds
        self._note_reading(stats)
        if self._tokens < _ENOUGH or self._seconds <= 0:
            return False
        rate = self._tokens / self._seconds
        controller = pair.loop.controller
        acceptance = None if controller is None or plan.draft is None else controller.acceptance
        pace = _pace(pair.devices)
        here = Reached(planning.models, plan.key, rate, acceptance, pace)
        self._kept.keep(machine, here)
        others = [each for each in planning.reached if each.placement != plan.key]
        # At the acceptance of these answers: what they are about is not the placement's fault.
        predicted = planning.knowing(others, acceptance).rate(plan.key)
        if pair.command.mode is not Mode.AUTO or predicted is None:
            return False
        if rate >= FALLS_SHORT * predicted:
            self._short, self._lost_s = 0, 0.0
            return False
        better = planning.knowing([here, *others]).plan()
        faster = better.tokens_per_s or 0.0
        if better.key == plan.key or faster < WORTH_MOVING * rate:
            return False
        self._short += 1
        self._lost_s += stats.decode_seconds - written / faster
        move_s = (self._read_s or 0.0) * (stats.prompt_tokens + stats.committed)
        if self._short < _IN_A_ROW or self._lost_s < move_s:
            return False
        self._better = better.key
        return True

    def _note_reading(self, stats: AnswerStats) -> None:
        """Keep the shortest time to read a token: others hold waiting, or a short prompt."""
        read = stats.prompt_tokens - stats.reused_tokens
        if stats.ttft_s is not None and read > 0:
            took = stats.ttft_s / read
            self._read_s = took if self._read_s is None else min(self._read_s, took)

    def take_moved(self) -> bool:
        """Tell once whether the pair that was loaded last lies where its answers sent it."""
        moved, self._moved = self._moved, False
        return moved


def _pace(devices: Mapping[str, Device]) -> float | None:
    """Return the declared seconds of a simulated accelerator's calls relative to the real ones."""
    for device in devices.values():
        if isinstance(device, SimulatedDevice) and device.processor.busy_s:
            return device.processor.declared_s / device.processor.busy_s
    return None
