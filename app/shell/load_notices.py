"""Notices about the loaded model: why a load failed, what a change waits for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject

from app.engine_link.running import Running
from app.engine_link.status import EngineStatus, Phase, same_load
from app.notices import Action, Notice, report, tell, withdraw
from app.session.session import ChatSession
from app.tuning.refusal import button_words, may_fit_later, refusal
from engine.events import Failed, PlanReady
from engine.language import number, sentences, tr


class LoadNotices(QObject):
    """A failure is told until another model is loaded, or the same in another way."""

    def __init__(self, running: Running, session: ChatSession, parent: QObject) -> None:
        super().__init__(parent)
        self._running, self._bridge, self._session = running, running.bridge, session
        self._failure: Notice | None = None
        running.waiting.connect(
            lambda: tell(tr("The change takes effect when this answer is finished."))
        )
        running.fell_back.connect(self._tell_fallback)
        self._bridge.plan_changed.connect(self._plan_changed)
        self._bridge.subscribe(PlanReady, self._loaded)
        self._bridge.subscribe(Failed, self._failed)

    def _tell_fallback(self, cause: str) -> None:
        tell(sentences(tr("Your last settings don't fit right now; using Automatic."), cause))

    def _plan_changed(self, before: EngineStatus) -> None:
        now = self._bridge.status
        if not same_load(before.loaded, now.loaded):
            withdraw(self._failure)
        if shortened(before, now) and before.plan is not None and now.plan is not None:
            tokens = before.plan.context
            keep = partial(self._keep_context, tokens)
            tell(
                tr("The context is now {now} tokens long, before it was {before}.").format(
                    now=number(now.plan.context), before=number(tokens)
                ),
                (tr("Keep {tokens} tokens").format(tokens=number(tokens)), keep),
            )

    def _keep_context(self, tokens: int) -> None:
        self._running.apply(replace(self._running.profile, context=tokens))

    def _loaded(self, event: PlanReady) -> None:
        """Say what the new model cannot do that others can; an empty chat says it itself."""
        if event.plan.caveat and self._session.current is not None:
            tell(event.plan.caveat)

    def _failed(self, event: Failed) -> None:
        if event.request_id is not None or self._running.falls_back:
            return
        choices = [
            (button_words(way), partial(self._running.take, way.load)) for way in event.ways_out
        ]
        self._failure = report(refusal(event), self._again(event), choices=choices)

    def _again(self, event: Failed) -> Action | None:
        """Offer another try where it may end otherwise."""
        if self._bridge.status.phase is Phase.BROKEN:
            return tr("Try again"), self._bridge.start
        if self._running.possible and may_fit_later(event):
            return tr("Try again"), self._running.try_again
        return None


def shortened(before: EngineStatus, now: EngineStatus) -> bool:
    """Return whether a model sees less than before, which nobody has asked for."""
    if before.plan is None or now.plan is None or now.loaded is None or before.loaded is None:
        return False
    same = before.model == now.model and now.loaded.context is None
    return same and 0 < now.plan.context < before.plan.context
