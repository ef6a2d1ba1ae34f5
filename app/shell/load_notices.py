"""Notices about the loaded model: why a load failed, what a change waits for."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from app.engine_link.plan_texts import mode_name
from app.engine_link.running import Running
from app.engine_link.status import EngineStatus, Phase, same_load
from app.notices import Action, Notice, report, tell, withdraw
from app.session.session import ChatSession
from app.settings import SettingsStore
from engine.commands import Load
from engine.events import Failed, FailureKind, PlanReady
from engine.language import number, sentences, tr


class LoadNotices(QObject):
    """A failure is told until another model is loaded, or the same in another way."""

    def __init__(
        self, running: Running, session: ChatSession, settings: SettingsStore, window: QWidget
    ) -> None:
        super().__init__(window)
        self._window = window
        self._settings = settings
        self._running, self._bridge, self._session = running, running.bridge, session
        self._failure: Notice | None = None
        self._called_off: Notice | None = None
        running.waiting.connect(
            lambda: tell(tr("The change takes effect when this answer is finished."))
        )
        running.fell_back.connect(self._tell_fallback)
        running.called_off.connect(self._offer_again)
        running.measuring_called_off.connect(lambda: tell(tr("Measuring was cancelled.")))
        self._bridge.plan_changed.connect(self._plan_changed)
        self._bridge.status_changed.connect(self._status_changed)
        self._bridge.subscribe(PlanReady, self._loaded)
        self._bridge.subscribe(Failed, self._failed)

    def _tell_fallback(self, cause: str) -> None:
        tell(sentences(tr("Your last settings don't fit right now; using Automatic."), cause))

    def _offer_again(self, load: Load) -> None:
        """Tell of a cancelled load and offer it again: Escape may have been meant otherwise."""
        again = partial(self._running.load_again, load)
        now = self._bridge.status.loaded
        if now is not None and now.model == load.model:
            words = tr("The change was cancelled: the model runs as before.")
            self._called_off = tell(words, (tr("Apply again"), again))
            return
        words = tr("Loading “{model}” was cancelled.")
        words = words.format(model=self._running.place_name(load.model))
        if self._bridge.status.plan is None:
            words = sentences(words, tr("No model is loaded."))
        self._called_off = tell(words, (tr("Load again"), again))

    def _plan_changed(self, before: EngineStatus) -> None:
        now = self._bridge.status
        if not same_load(before.loaded, now.loaded):
            withdraw(self._failure)

    def _status_changed(self, status: EngineStatus) -> None:
        """Take back the offer of what was called off as soon as something else is loaded."""
        if status.phase is Phase.LOADING and self._called_off is not None:
            withdraw(self._called_off)
            self._called_off = None

    def _compare_context(self, event: PlanReady) -> None:
        """Tell where a model sees less than the last time, which nobody has asked for."""
        load, now = event.load, event.plan.context
        if load is None or load.context is not None or not now:
            return
        before = self._settings.context_of(load.model)
        self._settings.keep_context(load.model, now)
        if now < before:
            words = tr("The context is now {now} tokens long, before it was {before}.")
            keep = tr("Keep {tokens} tokens").format(tokens=number(before))
            tell(
                words.format(now=number(now), before=number(before)),
                (keep, partial(self._keep_context, before)),
            )

    def _keep_context(self, tokens: int) -> None:
        self._running.apply(replace(self._running.profile, context=tokens))

    def _loaded(self, event: PlanReady) -> None:
        """Say what the new model cannot do that others can; an empty chat says it itself."""
        self._compare_context(event)
        if event.moved:
            words = tr("Automatic has changed to {mode}, which should be faster here.")
            place = f"{mode_name(event.plan.mode)} ({event.plan.target_device})"
            tell(words.format(mode=place))
        if event.plan.caveat and self._session.current is not None:
            tell(event.plan.caveat)
        if event.plan.continues and self._session.current is not None:
            words = tr("{model} has no chat template: it only continues text.")
            tell(words.format(model=event.model_name))

    def _failed(self, event: Failed) -> None:
        if event.request_id is not None or self._running.falls_back:
            return
        if event.kind is FailureKind.NEEDS_PYTORCH:
            from app.shell.pytorch_offer import offer_pytorch

            self._failure = offer_pytorch(event, self._window, self._running.try_again)
            return
        from app.tuning.refusal import button_words, refusal  # not for the first picture

        choices = [
            (button_words(way), partial(self._running.take, way.load)) for way in event.ways_out
        ]
        self._failure = report(refusal(event), self._again(event), choices=choices)

    def _again(self, event: Failed) -> Action | None:
        """Offer another try where it may end otherwise."""
        from app.tuning.refusal import may_fit_later

        if self._bridge.status.phase is Phase.BROKEN:
            return tr("Try again"), self._bridge.start
        if self._running.possible and may_fit_later(event):
            return tr("Try again"), self._running.try_again
        return None
