"""Questions that are answered beside the engine's thread, while that writes or loads.

`Count`: how long a request is. `Preview`: what a load would come to. `FindDrafts`: what can draft.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Generic, TypeVar

from engine.commands import Count, FindDrafts, Mode, Preview
from engine.errors import OutOfMemory, UserFixable
from engine.events import Counted, DraftsFound, Failed, PlanSummary, Previewed
from engine.events.models import Curve
from engine.hub.own_drafts import drafts_here
from engine.loading.devices import DeviceManager
from engine.loading.inspection import Inspection
from engine.loading.load import LoadedPair
from engine.loading.planned_load import plan_inspected, planning_of
from engine.machine.facts import Machine
from engine.machine.speeds import Speeds
from engine.model.local_model import LocalModel
from engine.service.model_slot import refused
from engine.session.answer import read

Q = TypeVar("Q", Count, Preview, FindDrafts)
Told = TypeVar("Told")

_log = logging.getLogger(__name__)


class SideQuestions(Generic[Q, Told]):
    """Answers questions in a thread of its own, which begins with the first one.

    An asker's question takes the place of the one it asked before. Subclasses say `answer`, whose
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
        self._waiting: dict[int, Q] = {}  # by asker
        self._closed = False
        self._thread: threading.Thread | None = None

    def ready(self) -> bool:
        """Tell whether questions can be answered now; `wake` has this asked again."""
        return True

    def answer(self, question: Q) -> Told | None:
        """Compute an answer; None where that is not possible now."""
        raise NotImplementedError

    def ask(self, question: Q) -> None:
        """Answer this, and nothing older of the same asker; never blocks."""
        with self._wake:
            if self._closed:
                return
            self._waiting[question.id.asker] = question
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._wake.notify()

    def wake(self) -> None:
        """Look again at questions that could not be answered."""
        with self._wake:
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
            with self._wake:
                stale = question.id.asker in self._waiting
                if told is None:
                    self._waiting.setdefault(question.id.asker, question)
            if told is not None and not stale:
                self._emit(told)

    def _next(self) -> Q | None:
        with self._wake:
            self._wake.wait_for(lambda: self._closed or (self._waiting and self.ready()))
            if self._closed:
                return None
            return self._waiting.pop(next(iter(self._waiting)))


class TokenCounter(SideQuestions[Count, Counted]):
    """Answers `Count`, once there is a model.

    Where the template does not take a conversation, the answer says why.
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

    def ready(self) -> bool:
        """Tell whether there is a model."""
        return self._pair() is not None

    def answer(self, question: Count) -> Counted | None:
        """Count the tokens of a request."""
        pair = self._pair()
        if pair is None:
            return None
        # Not the pair: its weights must be free to go meanwhile.
        template, tokenizer, context = pair.template, pair.tokenizer, pair.plan.context
        del pair
        request = question.request
        counted = Counted(perf_counter(), question.id, 0, context)
        if not request.messages and request.raw is None:
            return counted
        try:
            ids = read(request, template, tokenizer).ids
        except UserFixable as error:
            return replace(counted, refused=str(error))
        counted = replace(counted, prompt_tokens=len(ids))
        if not question.spelled:
            return counted
        text = b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")
        return replace(counted, ids=tuple(ids), text=text)


class Previewer(SideQuestions[Preview, Previewed]):
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

    def answer(self, question: Preview) -> Previewed:
        """Plan a load, and what every ceiling of GPU memory would give."""
        load = question.load
        machine = self._manager.look(load.simulate_gpu, load.device)
        pair, known = self._pair(), None
        if pair is not None:
            machine, known = pair.machine_without_it(machine), pair.text
        del pair  # its weights must be free to go meanwhile
        speeds = self._manager.speeds(machine)
        plan: PlanSummary | None = None
        curves: tuple[Curve, ...] = ()
        refusal: Failed | None = None
        try:
            inspection = Inspection.of(load, machine, known)
            try:
                planned = plan_inspected(inspection, speeds)
            except OutOfMemory:
                curves = _curves(inspection, load.mode, speeds)
                raise
        except UserFixable as error:
            refusal = refused(error, machine)
        else:
            plan = planned.summary
            curves = _curves(_with_draft(inspection, machine), load.mode, speeds)
        now = perf_counter()
        return Previewed(now, load, machine, plan, curves, refusal, speeds, question.id)


class DraftFinder(SideQuestions[FindDrafts, DraftsFound]):
    """Answers `FindDrafts`, which takes some tenths of a second where no load has looked for them.

    Args:
        emit: takes the answers; called from the finder's thread.
        pair: the loaded pair in force, whose tokens are known.
    """

    def __init__(
        self, emit: Callable[[DraftsFound], None], pair: Callable[[], LoadedPair | None]
    ) -> None:
        super().__init__(emit, "draft-finder")
        self._pair = pair

    def answer(self, question: FindDrafts) -> DraftsFound:
        """Look for the drafts of a model."""
        model, pair = question.model, self._pair()
        known = pair.tokenizer if pair is not None and pair.path == model else None
        del pair  # its weights must be free to go meanwhile

        def tokens() -> Mapping[str, int]:
            return LocalModel.inspect(model).tokens().ids if known is None else known.vocabulary

        return DraftsFound(perf_counter(), model, drafts_here(model, tokens), question.id)


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
        except UserFixable:
            continue
    return tuple(found)
