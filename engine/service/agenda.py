"""Work that waits for the engine's thread, in the order in which it will be done.

A change of model goes first, then the answers in the order of their asking (those that give way
behind the others), then a calibration, which has time, and a comparison of modes, whose plans rest
on that. Not thread-safe: the engine's
lock is around it.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.commands import Calibrate, Compare, Generate, Load, Stop, Unload


@dataclass(frozen=True, slots=True)
class Announce:
    """Say which model is in memory: the load that would have said so was called off."""


ModelChange = Load | Unload | Announce
Dropped = Generate | Calibrate | Compare
Work = ModelChange | Dropped

_ORDER: tuple[type[Dropped], ...] = (Generate, Calibrate, Compare)
"""Kinds of work that wait behind a change of model."""


def _place(work: Dropped) -> tuple[int, bool]:
    return _ORDER.index(type(work)), isinstance(work, Generate) and work.gives_way


class Agenda:
    """Work that waits for the engine's thread."""

    def __init__(self) -> None:
        self._change: ModelChange | None = None
        self._waiting: list[Dropped] = []

    def __bool__(self) -> bool:
        return bool(self._change or self._waiting)

    @property
    def changes_model(self) -> bool:
        """Tell whether the model is about to be replaced or unloaded."""
        return isinstance(self._change, Load | Unload)

    def add(self, work: Load | Unload | Dropped) -> None:
        """Enter a command; all but answers take the place of one of their kind that waits."""
        if isinstance(work, Load | Unload):
            self._change = work
            return
        if not isinstance(work, Generate):
            self._waiting = [each for each in self._waiting if type(each) is not type(work)]
        self._waiting.append(work)
        self._waiting.sort(key=_place)

    def next(self) -> Work:
        """Take out what comes first.

        Raises:
            IndexError: there is nothing to do.
        """
        if (change := self._change) is not None:
            self._change = None
            return change
        return self._waiting.pop(0)

    def stop(self, stop: Stop) -> list[Dropped]:
        """Take out what is meant, for the caller to tell of; an Unload stays."""
        if stop.request_id is None and isinstance(self._change, Load):
            self._change = Announce()
        stopped = [each for each in self._waiting if stop.means(each)]
        self._waiting = [each for each in self._waiting if each not in stopped]
        return stopped

    def clear(self) -> None:
        """Forget everything."""
        self._change, self._waiting = None, []
