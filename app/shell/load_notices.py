"""Notices about the loaded model: why a load failed, what a change waits for."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.engine_link.running import Running
from app.engine_link.status import Phase
from app.notices import Action, Notice, report, tell, withdraw
from app.session.session import ChatSession
from app.shell.pytorch_offer import offer_pytorch
from app.tuning.refusal import button_words, may_fit_later, refusal
from engine.commands import Load
from engine.events import Failed, FailureKind, PlanReady
from engine.language import sentences, tr


class LoadNotices(QObject):
    """A failure is told until another model is loaded, or the same in another way."""

    def __init__(self, running: Running, session: ChatSession, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._running, self._bridge, self._session = running, running.bridge, session
        self._failure: Notice | None = None
        self._present: Load | None = None
        running.waiting.connect(
            lambda: tell(tr("The change takes effect when this answer is finished."))
        )
        running.fell_back.connect(self._tell_fallback)
        self._bridge.subscribe(PlanReady, self._loaded)
        self._bridge.subscribe(Failed, self._failed)

    def _tell_fallback(self, cause: str) -> None:
        tell(sentences(tr("Your last settings don't fit right now; using Automatic."), cause))

    def _loaded(self, event: PlanReady) -> None:
        """Say what the new model cannot do that others can; an empty chat says it itself."""
        present, self._present = self._present, event.load
        if present is None or event.load is None or not event.load.same_as(present):
            withdraw(self._failure)
        if event.plan.caveat and self._session.current is not None:
            tell(event.plan.caveat)

    def _failed(self, event: Failed) -> None:
        if event.request_id is not None or self._running.falls_back:
            return
        load = self._bridge.last_load
        if event.kind is FailureKind.NEEDS_PYTORCH and load is not None:
            self._failure = offer_pytorch(event, self._window, lambda: self._bridge.submit(load))
            return
        choices = [
            (button_words(way), partial(self._running.take, way.load)) for way in event.ways_out
        ]
        self._failure = report(refusal(event), self._again(event), choices=choices)

    def _again(self, event: Failed) -> Action | None:
        """Offer another try where it may end otherwise."""
        bridge, load = self._bridge, self._bridge.last_load
        if bridge.status.phase is Phase.BROKEN:
            return tr("Try again"), bridge.start
        if load is not None and may_fit_later(event):
            return tr("Try again"), lambda: bridge.submit(load)
        return None
