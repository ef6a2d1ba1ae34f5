"""Speed of the model without its draft: what is known, and the measurement of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.bridge import EngineBridge
from app.engine_link.measured import FEWEST_TOKENS, MeasuredSpeeds, age_words
from app.engine_link.status import EngineStatus, Phase
from app.notices import report
from app.performance import wording
from app.performance.evidence import speed_of_plain_rounds
from app.performance.feed import ASIDE
from app.performance.gain import PAYS, Baseline
from app.performance.tally import AnswerTally
from app.performance.timeline import Timeline
from app.session.request import chat_request
from app.session.session import ChatSession
from app.signals import TypedSignal
from engine.commands import Generate, Stop
from engine.errors import UserFixable
from engine.events import AnswerStats, Failed, Finished, FinishReason, TextDelta
from engine.language import number, sentences, tr
from engine.request import ChatRequest, Role

_TOKENS, _QUIET_TOKENS = 64, 32
"""Tokens of a measurement that was asked for, and of one that was not."""
QUIET_MS = 3000
"""Nothing was asked for so long before a measurement begins by itself."""
_SIMULATED = "simulated:"


class WithoutDraft(QObject):
    """Knows how fast the present model is without its draft, or has it measured.

    A measurement asks the last question again, for a short answer that goes nowhere: neither the
    chat nor the graphs hear of it. A question that comes meanwhile ends it. Where the speed is not
    known, it is measured once by itself after an answer, while somebody looks.

    Args:
        bridge: to the engine.
        session: has the last question.
        measured: keeps the speeds that answers had; that of the measurement too.
        now: tells the Unix time.
    """

    changed = Signal()
    """The known speed has changed, or a measurement begins or ends."""
    wrote = Signal(str)
    """More text of the answer without a draft."""
    measured = TypedSignal[AnswerStats]()
    """The numbers of that answer."""

    def __init__(
        self,
        bridge: EngineBridge,
        session: ChatSession,
        measured: MeasuredSpeeds,
        now: Callable[[], float] = time.time,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge, self._session, self._measured, self._now = bridge, session, measured, now
        self._numbers = count(1)
        self._asked: str | None = None
        self._quietly = False
        """True if nobody asked for the measurement that is under way."""
        self._tried: set[tuple[object, ...]] = set()
        """Models, as they were loaded, that were measured without being asked to."""
        self._pause = QTimer(self, singleShot=True)
        self._pause.timeout.connect(self._measure_quietly)
        bridge.subscribe(TextDelta, self._heard)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Failed, self._failed)
        bridge.status_changed.connect(lambda _status: self.changed.emit())
        session.changed.connect(self.changed)
        session.asked.connect(lambda _at: self.cancel())
        measured.changed.connect(self.changed)

    # -- the switch ------------------------------------------------------------------------

    @property
    def status(self) -> EngineStatus:
        """Return the state of the engine, with the present model and the machine."""
        return self._bridge.status

    @property
    def has_draft(self) -> bool:
        """True if the present model has anything to draft with."""
        plan = self._bridge.status.plan
        return plan is not None and plan.draft is not None

    @property
    def drafting(self) -> bool:
        """True if the next answers are drafted for."""
        return self._session.drafting

    def set_drafting(self, *, drafting: bool) -> None:
        """Draft for the next answers, or not; nothing is loaded anew."""
        if drafting is not self._session.drafting:
            self._session.drafting = drafting
            self.changed.emit()

    # -- measuring -------------------------------------------------------------------------

    @property
    def measuring(self) -> bool:
        """True if a measurement is under way."""
        return self._asked is not None

    @property
    def possible(self) -> bool:
        """True if one could begin now."""
        ready = self._bridge.status.phase is Phase.READY and self._session.live is None
        return ready and not self.measuring and self.has_draft and self._request("") is not None

    def measure(self, *, quietly: bool = False, tokens: int = _TOKENS) -> None:
        """Have the last question answered without a draft, with so many tokens at most."""
        number = f"{ASIDE}{next(self._numbers)}"
        request = self._request(number, quietly=quietly) if self.possible else None
        if request is None:
            return
        request = replace(request, max_tokens=tokens)
        self._asked, self._quietly = request.id, quietly
        self._bridge.submit(Generate(request))
        self.changed.emit()

    def measure_soon(self) -> None:
        """Measure after a while without questions, unless that came to nothing before."""
        if self.possible and self._setting not in self._tried and not self._pause.isActive():
            self._pause.start(QUIET_MS)
            self.changed.emit()

    def leave(self) -> None:
        """Nobody looks any more: what was not asked for does not happen."""
        self._pause.stop()
        if self._quietly:
            self.cancel()

    @property
    def note(self) -> str:
        """Return why the speed without the draft is not known."""
        if self.measuring:
            return tr("measuring")
        return tr("is measured in a moment") if self._pause.isActive() else tr("not measured yet")

    @property
    def _setting(self) -> tuple[object, ...]:
        plan = self._bridge.status.plan
        return (self._bridge.status.model, plan and plan.layers_on_gpu, plan and plan.target_device)

    def _measure_quietly(self) -> None:
        if self.possible:
            self._tried.add(self._setting)
            self.measure(quietly=True, tokens=_QUIET_TOKENS)

    def cancel(self) -> None:
        """End the measurement."""
        self._pause.stop()
        if self._asked is not None:
            self._bridge.submit(Stop(self._asked))

    def _request(self, request_id: str, *, quietly: bool = False) -> ChatRequest | None:
        """The last question, as it was asked; `quietly`: once more behind its answer.

        So the prefix cache keeps the conversation whole, whose next question then begins at once.
        """
        messages, setup = self._session.messages, self._session.sent_setup
        last = max((i for i, each in enumerate(messages) if each.role is Role.USER), default=None)
        if last is None:
            return None
        answers = [each for each in messages[last + 1 :] if each.role is Role.ASSISTANT]
        sampling = answers[0].sampling if answers else setup.sampling(0)
        asked = [*messages, messages[last]] if quietly else messages[: last + 1]
        request = chat_request(request_id, asked, setup, sampling)
        return replace(request, drafting=False)

    def _heard(self, event: TextDelta) -> None:
        if event.request_id == self._asked:
            self.wrote.emit(event.text)

    def _finished(self, event: Finished) -> None:
        if event.request_id != self._asked:
            return
        self._asked = None
        self.measured.emit(event.stats)
        short = event.stats.committed < FEWEST_TOKENS or not event.stats.tokens_per_s
        ended = (FinishReason.STOPPED, FinishReason.ERROR)
        if short and event.reason not in ended and not self._quietly:
            cause = tr("The answer was too short to measure a speed.")
            report(UserFixable(cause, tr("Ask something with a longer answer first.")))
        self.changed.emit()

    def _failed(self, event: Failed) -> None:
        asked = event.request_id is not None and event.request_id == self._asked
        if asked and not self._quietly:
            report(UserFixable(event.cause, event.remedy, event.details))

    # -- what is known ---------------------------------------------------------------------

    def baseline(self, timeline: Timeline, model: str = "") -> Baseline | None:
        """The answer's own plain speed where enough rounds had no draft, else what was measured.

        A few rounds of this answer do where nothing was measured before.

        Args:
            timeline: the answer's rounds.
            model: name of the model that wrote it; empty: the present one.
        """
        own = speed_of_plain_rounds(timeline.rounds)
        if own is None:
            kept = self._kept() if model in ("", self._bridge.status.model_name) else None
            if kept is not None:
                return kept
            own = speed_of_plain_rounds(timeline.rounds, few=True)
        return None if own is None else Baseline(own)

    def _kept(self) -> Baseline | None:
        """Return the speed that was measured earlier of the present model."""
        model, plan = self._bridge.status.model, self._bridge.status.plan
        if model is None or plan is None:
            return None
        simulated = any(
            memory.device.startswith(_SIMULATED) and memory.total for memory in plan.memory
        )
        found = self._measured.baseline(model, plan.layers_on_gpu, simulated=simulated)
        return None if found is None else Baseline(found.tokens_per_s, found.at)

    def words(self, timeline: Timeline, tally: AnswerTally | None) -> str:
        """The comparison in a sentence; that nothing is known, where nothing is."""
        if not self.has_draft:
            return tr("No draft is in use: the target writes every token itself.")
        off = "" if self.drafting else tr("The draft is switched off for the next answers.")
        return sentences(self._compared(timeline, tally), off)

    def _compared(self, timeline: Timeline, tally: AnswerTally | None) -> str:
        baseline = self.baseline(timeline)
        now = tally.tokens_per_s if tally else None
        if baseline is None:
            return tr("How fast it would be without a draft has not been measured.")
        without = wording.rate(baseline.tokens_per_s)
        if tally is None or not tally.drafted or now is None:
            said = tr("Without a draft {without} tokens/s; measured {ago}.")
            return said.format(without=without, ago=self._ago(baseline))
        said = tr("Without a draft {without} tokens/s, now {now} ({ratio} times); measured {ago}.")
        if now / baseline.tokens_per_s >= PAYS and tally.per_verification is not None:
            said = tr(
                "Drafting makes it {ratio} times as fast: {now} tokens/s instead of {without},"
                " because a verification brings {length} tokens; measured {ago}."
            )
        return said.format(
            without=without,
            now=wording.rate(now),
            ratio=number(now / baseline.tokens_per_s, ".2f"),
            length=wording.rate(tally.per_verification),
            ago=self._ago(baseline),
        )

    def _ago(self, baseline: Baseline) -> str:
        if baseline.at is None:
            return tr("in this answer")
        return age_words(self._now() - baseline.at)
