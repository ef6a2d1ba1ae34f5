"""Questions that are answered beside the engine's thread, while that writes or loads.

`Count`: how long a request is. `Preview`: what a load would come to.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Generic, TypeVar

from engine.commands import Load, Mode
from engine.errors import OutOfMemory, UserFixable
from engine.events import Counted, Previewed
from engine.events.models import Curve
from engine.loading.devices import DeviceManager
from engine.loading.inspection import Inspection
from engine.loading.load import LoadedPair
from engine.loading.planned_load import plan_inspected, planning_of
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.request import ChatRequest
from engine.service.model_slot import refused
from engine.session.answer import read

Question = TypeVar("Question")
Told = TypeVar("Told")

_log = logging.getLogger(__name__)


class NewestQuestion(Generic[Question, Told]):
    """Answers questions in a thread of its own, which begins with the first one.

    A question that comes while another one waits takes its place. Subclasses say `answer`, whose
    errors are logged.

    Args:
        emit: takes answers that no newer question has made stale; called from the thread.
        name: of the thread.
        level: at which errors are logged.
    """

    def __init__(
        self, emit: Callable[[Told], None], name: str, level: int = logging.WARNING
    ) -> None:
        self._emit, self._name, self._level = emit, name, level
        self._wake = threading.Condition()
        self._question: Question | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def answer(self, question: Question) -> Told | None:
        """Compute an answer; None for no answer."""
        raise NotImplementedError

    def ask(self, question: Question) -> None:
        """Answer this, and nothing older; never blocks."""
        with self._wake:
            if self._closed:
                return
            self._question = question
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._wake.notify()

    def close(self, timeout: float) -> None:
        """End the thread."""
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self) -> None:
        while (question := self._next()) is not None:
            try:
                told = self.answer(question)
            except BaseException:  # noqa: BLE001 - an answer is missing, nothing worse
                _log.log(self._level, "%s has no answer", self._name, exc_info=True)
                continue
            if told is not None and self._question is None:
                self._emit(told)

    def _next(self) -> Question | None:
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._question is not None)
            question, self._question = self._question, None
            return None if self._closed else question


class TokenCounter(NewestQuestion[ChatRequest, Counted]):
    """Answers `Count`.

    Without a model, and for a conversation that its template does not take, there is no answer.
    What the tokenizer has encoded lately it still knows, so a growing conversation costs what is
    new in it, and an answer to what was counted need not encode it again.

    Args:
        emit: takes the answers; called from the counter's thread.
        pair: the loaded pair in force.
    """

    def __init__(
        self, emit: Callable[[Counted], None], pair: Callable[[], LoadedPair | None]
    ) -> None:
        super().__init__(emit, "token-counter", logging.DEBUG)
        self._pair = pair

    def answer(self, question: ChatRequest) -> Counted | None:
        """Count the tokens of a request."""
        pair = self._pair()
        if pair is None:
            return None
        # Not the pair: its weights must be free to go meanwhile.
        template, tokenizer, context = pair.template, pair.tokenizer, pair.plan.context
        del pair
        tokens = len(read(question, template, tokenizer).ids) if question.messages else 0
        return Counted(perf_counter(), question.id, tokens, context)


class Previewer(NewestQuestion[Load, Previewed]):
    """Answers `Preview`.

    Args:
        emit: takes the answers; called from the previewer's thread.
        manager: of the devices.
        pair: the loaded pair in force, whose memory would come back.
    """

    def __init__(
        self,
        emit: Callable[[Previewed], None],
        manager: DeviceManager,
        pair: Callable[[], LoadedPair | None],
    ) -> None:
        super().__init__(emit, "previewer")
        self._manager, self._pair = manager, pair

    def answer(self, question: Load) -> Previewed:
        """Plan a load, and what every ceiling of graphics memory would give."""
        machine = self._manager.look(question.simulate_gpu)
        pair, known = self._pair(), None
        if pair is not None:
            machine, known = pair.machine_without_it(machine), pair.text
        del pair  # its weights must be free to go meanwhile
        speeds = self._manager.speeds(machine)
        curves: tuple[Curve, ...] = ()
        try:
            inspection = Inspection.of(question, machine, known)
            try:
                planned = plan_inspected(inspection, speeds)
            except OutOfMemory:
                curves = _curves(inspection, question.mode, speeds)
                raise
        except UserFixable as error:
            refusal = refused(error, machine)
            return Previewed(perf_counter(), question, machine, None, curves, refusal, speeds)
        curves = _curves(_with_draft(inspection, machine), question.mode, speeds)
        return Previewed(perf_counter(), question, machine, planned.summary, curves, speeds=speeds)


def _with_draft(inspection: Inspection, machine: Machine) -> Inspection:
    """Add the draft that other modes than plain would have."""
    if inspection.command.mode is not Mode.PLAIN:
        return inspection
    try:
        automatic = replace(inspection.command, mode=Mode.AUTO)
        return Inspection.of(automatic, machine, inspection.text)
    except UserFixable:
        return inspection


def _curves(inspection: Inspection, first: Mode, speeds: Speeds) -> tuple[Curve, ...]:
    """The curves of all modes that are possible at all, `first` at the front."""
    found = []
    for mode in sorted(Mode, key=lambda mode: mode is not first):
        try:
            found.append(planning_of(inspection, speeds, mode).curve())
        except OutOfMemory as error:
            layers = len(inspection.target.facts.footprint.blocks)
            found.append(Curve(mode, (), 0, 0, layers, 0, str(error)))
        except UserFixable:
            continue
    return tuple(found)
