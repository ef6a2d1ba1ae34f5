"""Passes a verdict on each answer as it ends, once, and has it kept with the answer."""

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, Signal

from app.engine_link.bridge import EngineBridge
from app.engine_link.status import is_aside
from app.performance.verdict import AnswerPace, SpeedRange, SpeedVerdict
from app.session.session import ChatSession
from engine.commands import Load
from engine.events import Finished, FinishReason, RoundFinished

_MINUTES_S = 600.0
"""A speed without the draft says something about answers that ended so many seconds from it."""
_NEAR, _WITHIN = 512, 2.0
"""Tokens, or the factor, that two contexts may differ by and cost about the same."""
_AS_BUSY = 15.0
"""Percent of the CPU that the load by other programs may differ by."""
_MOST = 8


@dataclass(frozen=True, slots=True)
class _Circumstances:
    """The circumstances that a speed depends on, beside the draft.

    Attributes:
        setting: the model, how it was loaded, and where it computes.
        context: tokens in the context at the end.
        others_cpu: percent of the CPU in other programs' hands.
        at: Unix time.
    """

    setting: tuple[object, ...]
    context: int
    others_cpu: float | None
    at: float

    def like(self, other: _Circumstances) -> bool:
        """Return whether speeds of both may be compared."""
        less, more = sorted((self.context, other.context))
        near = more - less <= _NEAR or more <= _WITHIN * less
        busy = self.others_cpu, other.others_cpu
        alike = None in busy or abs((busy[0] or 0.0) - (busy[1] or 0.0)) <= _AS_BUSY
        recent = abs(self.at - other.at) <= _MINUTES_S
        return self.setting == other.setting and near and alike and recent


class Verdicts(QObject):
    """Compares each answer with the same model without its draft.

    The speed without the draft comes from the answer's own rounds, else from what was measured
    lately under the same circumstances; where it is measured only after the answer, it completes
    the verdict. A verdict that is complete never changes.

    Args:
        bridge: to the engine.
        session: tells which answer a request writes.
        into: the verdicts by request, for those who show them.
        keep: has the history keep one: the message, and the verdict packed; "" for none.
        now: tells the Unix time.
    """

    changed = Signal()
    """A verdict was passed, or completed."""

    def __init__(
        self,
        bridge: EngineBridge,
        session: ChatSession,
        into: MutableMapping[str, SpeedVerdict],
        keep: Callable[[int, str], None],
        now: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge, self._session = bridge, session
        self._into, self._keep, self._now = into, keep, now
        self._paces: dict[str, AnswerPace] = {}
        self._messages: dict[str, int] = {}
        self._plain: list[tuple[_Circumstances, SpeedRange]] = []
        self._open: tuple[str, _Circumstances] | None = None
        """The last verdict, while it lacks the speed without the draft."""
        session.began.connect(self._began)
        bridge.subscribe(RoundFinished, self._round)
        bridge.subscribe(Finished, self._finished)

    def lacks_plain(self, request_id: str) -> bool:
        """Return whether a measurement without the draft would complete this answer's verdict."""
        return self._open is not None and self._open[0] == request_id

    def _began(self, request_id: str, message_id: int) -> None:
        self._paces.clear()
        self._open = None
        begun = any(each.id == message_id and each.text for each in self._session.messages)
        if begun:  # its beginning was written at another time
            self._keep(message_id, "")
        else:
            self._messages = {request_id: message_id}

    def _round(self, done: RoundFinished) -> None:
        self._paces.setdefault(done.request_id, AnswerPace()).add(done)

    def _finished(self, event: Finished) -> None:
        pace, load = self._paces.pop(event.request_id, None), self._bridge.status.loaded
        if pace is None or load is None or event.reason is FinishReason.ERROR:
            return
        others = event.stats.others_cpu
        here = _Circumstances(self._setting(load), pace.context, others, self._now())
        own = pace.plain
        if own is not None:
            self._plain = [*self._plain[1 - _MOST :], (here, own)]
        if is_aside(event.request_id):
            self._complete()
        elif (speed := pace.speed) is not None and event.stats.drafted:
            plain = own or self._measured(here)
            self._pass(event.request_id, SpeedVerdict(speed, plain, pace.most, others))
            self._open = (event.request_id, here) if plain is None else None
            self.changed.emit()

    def _complete(self) -> None:
        """The speed without the draft was measured just now."""
        if self._open is None:
            return
        request_id, there = self._open
        plain = self._measured(there)
        if plain is not None:
            self._open = None
            self._pass(request_id, replace(self._into[request_id], plain=plain))
            self.changed.emit()

    def _measured(self, here: _Circumstances) -> SpeedRange | None:
        return next((plain for there, plain in reversed(self._plain) if there.like(here)), None)

    def _pass(self, request_id: str, verdict: SpeedVerdict) -> None:
        self._into[request_id] = verdict
        message_id = self._messages.get(request_id)
        if message_id is not None:
            self._keep(message_id, verdict.packed)

    def _setting(self, load: Load) -> tuple[object, ...]:
        plan = self._bridge.status.plan
        placed = None if plan is None else (plan.layers_on_gpu, plan.target_device)
        asked = (load.model, load.weights, load.kv, load.threads, load.device, load.simulate_gpu)
        return (*asked, placed)
