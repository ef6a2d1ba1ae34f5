"""The tuning page: what was found here, which mode runs and why, how much of a card it has."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from app.engine_link.measured import Measured, MeasuredSpeeds
from app.engine_link.status import Phase
from app.session.session import ChatSession
from app.settings.profiles import ModelProfile
from app.tuning.apply_bar import ApplyBar
from app.tuning.budget.model import BudgetModel
from app.tuning.draft_dialog import ask_for_draft
from app.tuning.hardware_card import HardwareCard
from app.tuning.interruption import Interruption
from app.tuning.measured_points import points_for
from app.tuning.memory_card import MemoryCard
from app.tuning.mode_card import ModeCard
from app.tuning.outcome import LoadOutcome, changes, newest_of, now_words, predicted_now, step_of
from app.tuning.refusal_notice import RefusalNotice
from app.tuning.run_choice import RunChoice
from app.widgets.boxes import fill, vbox
from app.widgets.page_frame import PageFrame
from engine.commands import Calibrate, Stop
from engine.events import Calibrated, DeviceSample, PlanSummary
from engine.language import tr

_WIDEST = 960


class TuningPage(PageFrame):
    """Page on how the model runs, with everything in view that speaks for or against a choice.

    What is chosen is only looked at until it is applied.
    """

    def __init__(
        self,
        choosing: RunChoice,
        session: ChatSession,
        measured: MeasuredSpeeds,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(tr("Tuning"), parent, widest=_WIDEST)
        self.choosing, self.previews = choosing, choosing.previews
        running = self._running = choosing.running
        self._bridge, self._measured = running.bridge, measured
        self._interruption = Interruption(running, session, self)
        self._measuring_asked = False
        self._others: dict[str, int] = {}
        self._seen: object = None
        self._for_now: QWidget | None = None
        """The widget that has the keyboard until there is more to use."""
        self.memory = MemoryCard(self)
        self.mode = ModeCard(self)
        self.hardware = HardwareCard(self)
        fill(self.column, self.memory, self.mode, self.hardware, 1)
        self.refusal = RefusalNotice(self)
        self.bar = ApplyBar(self)
        self._notices = vbox(self.refusal)
        fill(self.foot, self._notices, self.bar)
        self._later = QTimer(self, singleShot=True, interval=0)
        self._later.timeout.connect(self.show_state)
        self._connect()

    def _connect(self) -> None:
        choose, bridge = self.choosing.choose, self._bridge
        self.memory.budget.chosen.connect(lambda vram: choose(vram=vram))
        self.memory.budget.mode_chosen.connect(lambda mode: choose(mode=mode))
        self.memory.context.chosen.connect(lambda context: choose(context=context))
        self.memory.kv.chosen.connect(lambda kv: choose(kv=kv))
        self.memory.threads.chosen.connect(lambda threads: choose(threads=threads))
        self.mode.modes.chosen.connect(lambda mode: choose(mode=mode))
        self.mode.drafts.chosen.connect(lambda draft: choose(draft=draft))
        self.mode.drafts.folder_asked.connect(lambda: self._ask_draft(folder=True))
        self.mode.drafts.file_asked.connect(lambda: self._ask_draft(folder=False))
        self.hardware.measure_asked.connect(self._measure)
        self.hardware.cancel_asked.connect(lambda: bridge.submit(Stop()))
        self.refusal.chosen.connect(lambda load: self.choosing.take(ModelProfile.of(load)))
        self.bar.apply_asked.connect(self._apply)
        self.bar.now_asked.connect(self._apply_now)
        self.bar.undo_asked.connect(self._undo)
        self.bar.cancel_asked.connect(self._running.call_off)
        self.choosing.changed.connect(self._chosen)
        self.previews.changed.connect(self._soon)
        self._measured.changed.connect(self._soon)
        self._running.changed.connect(self._followed)
        bridge.subscribe(Calibrated, self._calibrated)
        bridge.subscribe_newest(DeviceSample, self._sampled)

    # -- what the page is asked ------------------------------------------------------------

    def take_keyboard(self) -> None:
        """The budget is what is moved first; without one, the mode."""
        self.show_state()
        self._for_now = None
        first = self._first
        if first is None:
            super().take_keyboard()
            return
        first.setFocus(Qt.FocusReason.OtherFocusReason)
        if self.previews.last is None:
            self._for_now = first

    @property
    def _first(self) -> QWidget | None:
        """Return the shown widget that is used first."""
        slider, row = (
            self.memory.budget.slider,
            self.mode.modes.rows[self.choosing.profile.mode],
        )
        shown = (each for each in (slider, row.button) if each.isVisibleTo(self))
        return next((each for each in shown if each.isEnabled()), None)

    def _pass_keyboard_on(self) -> None:
        """Move the focus to what is used first, unless the user has moved it meanwhile."""
        waiting, self._for_now = self._for_now, None
        if waiting is not None and waiting.hasFocus() and self._first is not None:
            self._first.setFocus(Qt.FocusReason.OtherFocusReason)

    def showEvent(self, event: QShowEvent) -> None:  # noqa: N802
        """Ask for previews, as somebody looks now."""
        super().showEvent(event)
        self.choosing.watch(self, watching=True)
        self.show_state()

    def hideEvent(self, event: QHideEvent) -> None:  # noqa: N802
        """Stop asking for previews, as nobody looks any more."""
        super().hideEvent(event)
        self.choosing.watch(self, watching=False)
        self._later.stop()

    def resizeEvent(self, event: QResizeEvent) -> None:  # noqa: N802
        """Keep the foot in line with the column."""
        super().resizeEvent(event)
        self.bar.keep_side(self.side)
        self._notices.setContentsMargins(self.side, 0, self.side, 12)

    # -- what is done ----------------------------------------------------------------------

    def _ask_draft(self, *, folder: bool) -> None:
        choose = self.choosing.choose
        ask_for_draft(self, self._running, lambda draft: choose(draft=draft), folder=folder)

    def _measure(self) -> None:
        self._measuring_asked = True
        self._bridge.submit(Calibrate())
        self.show_state()

    def _calibrated(self, _event: Calibrated) -> None:
        self._measuring_asked = False
        self._soon()

    def _apply(self) -> None:
        again = not self.choosing.differs
        self._running.apply(self.choosing.profile, again=again)
        self.show_state()
        self._keep_keyboard()

    def _apply_now(self) -> None:
        self._interruption.apply(self.choosing.profile)
        self._keep_keyboard()

    def _undo(self) -> None:
        if self.choosing.differs:
            self.choosing.undo()
        else:
            self._running.take_back()
        self._keep_keyboard()

    def _keep_keyboard(self) -> None:
        """Stay on the page: the button that was pressed goes away."""
        if (first := self._first) is not None:
            first.setFocus(Qt.FocusReason.OtherFocusReason)

    # -- what is shown ---------------------------------------------------------------------

    def _soon(self) -> None:
        if self.isVisible():
            self._later.start()

    def _followed(self) -> None:
        """The engine tells of every step it makes; few of them are to be seen here."""
        status = self._bridge.status
        words = status.words if status.phase is Phase.LOADING else ""
        drafts = self._running.drafts_found
        seen = (status.phase, status.plan, status.machine, status.measured, words, drafts)
        if seen != self._seen:
            self._seen = seen
            self._soon()

    def _sampled(self, sample: DeviceSample) -> None:
        others = {
            each.device: each.memory_used - each.memory_ours
            for each in sample.accelerators
            if each.memory_used is not None and each.memory_ours is not None
        }
        if others != self._others:
            self._others = others
            self._soon()

    def _chosen(self) -> None:
        """Follow a choice at once, perhaps made by dragging."""
        if self.isVisible():
            self._show_choice()

    def show_state(self) -> None:
        """Show everything as it is."""
        self._later.stop()
        told, status = self.previews.last, self._bridge.status
        for card in (self.memory, self.mode):
            card.setVisible(self._running.possible)
        speeds = told.speeds if told is not None else None
        self.hardware.show_machine(self.choosing.machine, speeds)
        self.hardware.show_measuring(status, speeds, asked=self._measuring_asked)
        self.memory.budget.show_model(self._budget(), self.choosing.machine)
        self._show_choice()
        if told is not None:
            self._pass_keyboard_on()

    def _show_choice(self) -> None:
        profile, told = self.choosing.profile, self.previews.last
        plan = self._bridge.status.plan if told is None or told.plan is None else told.plan
        self.mode.show_choice(self.choosing)
        asked = None if told is None else ModelProfile.of(told.load)
        fits = asked is None or (asked.mode, asked.draft) == (profile.mode, profile.draft)
        self.mode.reasons.show_plan(plan, planning=self.previews.waiting and not fits)
        self.memory.budget.show_profile(profile)
        self.memory.show_choice(self.choosing, plan)
        if not self.choosing.differs or self.previews.current is not None:
            self.refusal.show_refusal(self.choosing.refusal)
        self._show_bar()

    @property
    def _points(self) -> list[Measured]:
        wanted = self._bridge.status.wanted
        return [] if wanted is None else self._measured.of(wanted.model)

    def _budget(self) -> BudgetModel | None:
        told, present = self.previews.last, self._bridge.status.plan
        if told is None:
            return None
        plan = told.plan or present
        draft = plan.draft if plan is not None else None
        points = points_for(told, draft, self._points, time.time())
        model = BudgetModel.of(told, present, points)
        others = self._others.get(model.card.device) if model.card is not None else None
        return model if others is None else model.with_others(others)

    def _show_bar(self) -> None:
        status, running, bar = self._bridge.status, self._running, self.bar
        if not running.possible or (status.plan is None and status.phase is not Phase.LOADING):
            bar.show_change("", tr("Open a model to choose how it runs."))
            bar.offer()
        elif status.phase is Phase.LOADING or status.plan is None:
            bar.show_change(status.words, "")
            bar.offer_cancel()
        else:
            self._show_change(status.plan, busy=status.busy)

    def _show_change(self, plan: PlanSummary, *, busy: bool) -> None:
        running, bar, machine = self._running, self.bar, self.choosing.machine
        in_force = running.in_force or running.profile
        predicted = predicted_now(self.previews.last, in_force, plan)
        now = LoadOutcome.of_plan(plan, predicted)
        words = now_words(plan, machine, predicted, newest_of(plan, self._points))
        then, differs = self._outcome(), self.choosing.differs
        change = "" if then is None else changes(now, then, machine)
        possible = self._interruption.possible
        if differs and not self.refusal.isHidden():
            bar.show_change(tr("These settings don't fit right now."), words)
            bar.offer(undo=True)
        elif differs:
            none = tr("No noticeable change.")
            bar.show_change(change or (none if then is not None else tr("Planning…")), words)
            apply = tr("Apply after this answer") if busy else tr("Apply")
            bar.offer(apply=apply, now=busy and possible, undo=True)
        elif running.pending:
            wait = tr("The change takes effect when this answer is finished.")
            bar.show_change(change, wait)
            bar.offer(now=possible, undo=True)
        elif change and not busy and self.previews.current is not None:
            bar.show_change(tr("New plan: {change}").format(change=change), words)
            bar.offer(apply=tr("Plan again"))
        else:
            bar.show_change("", words)
            bar.offer()

    def _outcome(self) -> LoadOutcome | None:
        """Return the outcome of the choice; None while it is being found out, or impossible."""
        told, profile = self.previews.last, self.choosing.profile
        fresh = self.previews.current
        if fresh is not None and fresh.plan is not None:
            return LoadOutcome.of_plan(fresh.plan)
        asked = None if told is None else ModelProfile.of(told.load)
        if asked is None or _curve_settings(asked) != _curve_settings(profile):
            return None
        step = step_of(told, profile)
        return None if step is None else LoadOutcome.of_step(*step)


def _curve_settings(profile: ModelProfile) -> tuple[object, ...]:
    """Return what changes the curves themselves."""
    return profile.draft, profile.context, profile.kv
