"""Previews of a load, asked of the engine while somebody looks, and again in time."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.asker import Asker
from app.engine_link.bridge import EngineBridge
from engine.commands import Load, Preview
from engine.events import Calibrated, DeviceSample, PlanReady, Previewed, Unloaded

_WAIT_MS = 60
"""Questions that follow each other faster are one."""
_NOTICEABLE = 1 / 64
"""Share of a GPU's memory: a larger change of other programs' use asks for a new preview."""


class Previews(QObject):
    """Keeps the last answer to the newest question. Asks only while it is active."""

    changed = Signal()
    """There is another answer, or another question."""

    def __init__(self, bridge: EngineBridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.last: Previewed | None = None
        self._load: Load | None = None
        self._active = False
        self._stale = True
        self._asker = Asker(bridge, self)
        self._of_others: dict[str, int] = {}
        self._timer = QTimer(self, singleShot=True, interval=_WAIT_MS)
        self._timer.timeout.connect(self._submit)
        for news in (PlanReady, Unloaded, Calibrated):
            bridge.subscribe(news, lambda _event: self.refresh())
        bridge.subscribe_newest(DeviceSample, self._sampled)

    @property
    def current(self) -> Previewed | None:
        """The answer, if it is that to the newest question and nothing has changed since."""
        return None if self._stale else self.last

    @property
    def waiting(self) -> bool:
        """True if an answer is awaited."""
        return self._active and self._stale and self._load is not None

    def ask(self, load: Load | None) -> None:
        """Ask about this load from now on; None: about nothing."""
        if load != self._load:
            if load is None or (self._load is not None and load.model != self._load.model):
                self.last = None
            self._load = load
            self.refresh()

    def refresh(self) -> None:
        """Ask again, as something that the answer depends on has changed."""
        self._stale = True
        self._asker.forget()
        if self._active and self._load is not None:
            self._timer.start()
        self.changed.emit()

    def set_active(self, *, active: bool) -> None:
        """Set whether somebody looks."""
        self._active = active
        if active and self._stale and self._load is not None:
            self._timer.start()
        elif not active:
            self._timer.stop()

    def _submit(self) -> None:
        if self._load is not None:
            self._asker.ask(Preview(self._load), self._arrived)

    def _arrived(self, event: Previewed) -> None:
        self.last, self._stale = event, False
        self._of_others.clear()
        self.changed.emit()

    def _sampled(self, sample: DeviceSample) -> None:
        """Ask again where other programs have taken memory of a GPU, or given it back."""
        for each in sample.accelerators:
            if each.memory_used is None or each.memory_ours is None or not each.memory_total:
                continue
            others = each.memory_used - each.memory_ours
            before = self._of_others.setdefault(each.device, others)
            if abs(others - before) > each.memory_total * _NOTICEABLE and not self._stale:
                self.refresh()
