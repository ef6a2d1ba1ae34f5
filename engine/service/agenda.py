"""What the engine has still to do, in the order in which it will.

A change of model goes first, then the answers in the order of their asking, then a calibration,
which has time, and a comparison of modes, whose plans rest on that. Not thread-safe: the engine's
lock is around it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from engine.commands import Calibrate, Compare, Generate, Load, Stop, Unload


@dataclass(frozen=True, slots=True)
class Announce:
    """Say which model is in memory: the load that would have said so was called off."""


Work = Load | Unload | Announce | Generate | Calibrate | Compare
Dropped = Generate | Calibrate | Compare


class Agenda:
    """Work that waits for the engine's thread."""

    def __init__(self) -> None:
        self._change: Load | Unload | Announce | None = None
        self._answers: deque[Generate] = deque()
        self._calibration: Calibrate | None = None
        self._comparison: Compare | None = None

    def __bool__(self) -> bool:
        return bool(self._change or self._answers or self._calibration or self._comparison)

    @property
    def changes_model(self) -> bool:
        """Whether another model comes next, or none."""
        return isinstance(self._change, Load | Unload)

    def add(self, work: Load | Unload | Dropped) -> None:
        """Enter a command; a change of model takes the place of one that waits."""
        match work:
            case Generate():
                self._answers.append(work)
            case Calibrate():
                self._calibration = work
            case Compare():
                self._comparison = work
            case _:
                self._change = work

    def next(self) -> Work:
        """Take out what comes first.

        Raises:
            IndexError: there is nothing to do.
        """
        if (change := self._change) is not None:
            self._change = None
            return change
        if self._answers:
            return self._answers.popleft()
        if (calibration := self._calibration) is not None:
            self._calibration = None
            return calibration
        comparison, self._comparison = self._comparison, None
        if comparison is None:
            raise IndexError("there is nothing to do")
        return comparison

    def stop(self, stop: Stop) -> list[Dropped]:
        """Take out what is meant, for the caller to tell of; an Unload stays."""
        if stop.request_id is not None:
            stopped = [each for each in self._answers if each.request.id == stop.request_id]
            self._answers = deque(each for each in self._answers if each not in stopped)
            return [*stopped]
        if isinstance(self._change, Load):
            self._change = Announce()
        beside = (self._calibration, self._comparison)
        dropped: list[Dropped] = [*self._answers, *(each for each in beside if each is not None)]
        self._answers.clear()
        self._calibration = self._comparison = None
        return dropped

    def clear(self) -> None:
        """Forget everything."""
        self._change = self._calibration = self._comparison = None
        self._answers.clear()
