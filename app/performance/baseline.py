"""Speed of the model without its draft: the measurement of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from PySide6.QtCore import QObject, QTimer, Signal

from app.engine_link.bridge import EngineBridge
from app.engine_link.measured import FEWEST_TOKENS
from app.engine_link.status import EngineStatus, Phase, aside_id
from app.notices import report
from app.performance.gain import Gain
from app.session.request import chat_request
from app.session.session import ChatSession
from app.signals import TypedSignal
from engine.commands import Generate, Stop
from engine.errors import UserFixable
from engine.events import AnswerStats, Failed, Finished, FinishReason, TextDelta
from engine.language import sentences, tr
from engine.request import ChatRequest, Role

_TOKENS, _QUIET_TOKENS = 64, 32
"""Tokens of a measurement that was asked for, and of one that was not."""
QUIET_MS = 3000
"""Nothing was asked for so long before a measurement begins by itself."""


class WithoutDraft(QObject):
    """Has it measured how fast the present model is without its draft; switches the draft.

    A measurement asks the last question again, for a short answer that goes nowhere: neither the
    chat nor the graphs hear of it. Whatever is asked for meanwhile ends it. Where an answer's
    verdict lacks the speed, it is measured once by itself, while somebody looks.

    Args:
        bridge: to the engine.
        session: has the last question.
    """

    changed = Signal()
    """The known speed has changed, or a measurement begins or ends."""
    wrote = Signal(str)
    """More text of the answer without a draft."""
    measured = TypedSignal[AnswerStats, FinishReason]()
    """The numbers of that answer, and why it ended."""

    def __init__(
        self,
        bridge: EngineBridge,
        session: ChatSession,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge, self._session = bridge, session
        self._numbers = count(1)
        self._asked: str | None = None
        self._quietly = False
        """True if nobody asked for the measurement that is under way."""
        self._on_show = False
        """True if whoever asked for it says what came of it."""
        self._tried: set[str] = set()
        """Answers after which a measurement began without being asked for."""
        self._due = ""
        self._pause = QTimer(self, singleShot=True)
        self._pause.timeout.connect(self._measure_quietly)
        bridge.subscribe(TextDelta, self._heard)
        bridge.subscribe(Finished, self._finished)
        bridge.subscribe(Failed, self._failed)
        bridge.status_changed.connect(lambda _status: self.changed.emit())
        session.changed.connect(self.changed)
        session.asked.connect(lambda _at: self.cancel())

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
    def asked_for(self) -> bool:
        """True if somebody asked for the measurement that is under way."""
        return self.measuring and not self._quietly

    @property
    def possible(self) -> bool:
        """True if one could begin now."""
        return not self.hindrance

    @property
    def hindrance(self) -> str:
        """Return what is missing for one to begin now; "" where nothing is."""
        status = self._bridge.status
        idle = status.phase is Phase.READY and self._session.live is None and not self.measuring
        if not idle or status.measuring_done is not None:
            return tr("Possible once a model is ready and nothing else is running.")
        if not self.has_draft:
            return tr("No draft is in use: the target writes every token itself.")
        if not any(each.role is Role.USER for each in self._session.messages):
            return tr("Ask something first: the last question is answered once more.")
        return ""

    def measure(
        self,
        *,
        quietly: bool = False,
        on_show: bool = False,
        tokens: int = _TOKENS,
        drafting: bool = False,
    ) -> None:
        """Have the last question answered aside, with so many tokens at most.

        Args:
            quietly: nobody has asked for it.
            on_show: whoever has asked for it says what came of it.
            tokens: at most.
            drafting: with the draft, to be compared with.
        """
        request_id = aside_id(next(self._numbers))
        request = self._request(request_id, quietly=quietly) if self.possible else None
        if request is None:
            return
        request = replace(request, max_tokens=tokens, drafting=drafting)
        self._asked, self._quietly, self._on_show = request.id, quietly, on_show
        self._bridge.submit(Generate(request, gives_way=True))
        self.changed.emit()

    def measure_soon(self, request_id: str) -> None:
        """Measure after a while without questions, once after this answer."""
        if self.possible and request_id not in self._tried and not self._pause.isActive():
            self._due = request_id
            self._pause.start(QUIET_MS)
            self.changed.emit()

    def ask(self) -> None:
        """Measure; a measurement that began by itself goes on, and counts as asked for."""
        self._quietly = False
        self.changed.emit()
        self.measure()

    def leave(self) -> None:
        """Nobody looks any more: what was not asked for does not happen."""
        self._pause.stop()
        if self._quietly:
            self.cancel()

    @property
    def note(self) -> str:
        """Return why the speed without the draft is not known."""
        if self.status.measuring_done is not None:
            return tr("after this computer is measured")
        if self.measuring:
            return tr("measuring")
        return tr("is measured in a moment") if self._pause.isActive() else tr("not measured yet")

    def _measure_quietly(self) -> None:
        if self.possible:
            self._tried.add(self._due)
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
        self.measured.emit(event.stats, event.reason)
        short = event.stats.committed < FEWEST_TOKENS or not event.stats.tokens_per_s
        ended = (FinishReason.STOPPED, FinishReason.ERROR)
        if short and event.reason not in ended and not (self._quietly or self._on_show):
            cause = tr("The answer was too short to measure a speed.")
            report(UserFixable(cause, tr("Ask something with a longer answer first.")))
        self.changed.emit()

    def _failed(self, event: Failed) -> None:
        asked = event.request_id is not None and event.request_id == self._asked
        if asked and not self._quietly:
            report(UserFixable(event.cause, event.remedy, event.details))

    def words(self, gain: Gain) -> str:
        """The comparison in a sentence; that nothing is known, where nothing is."""
        if not self.has_draft:
            return tr("No draft is in use: the target writes every token itself.")
        off = "" if self.drafting else tr("The draft is switched off for the next answers.")
        known = [bar for bar in gain.bars if bar.tokens_per_s is not None]
        said = tr("How fast it would be without a draft has not been measured.")
        if len(known) > 1:
            said = tr("With the draft {now}, without it {plain}.")
            said = said.format(now=known[0].value, plain=known[1].value)
        return sentences(said, off)
