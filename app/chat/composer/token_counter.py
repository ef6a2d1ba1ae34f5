"""Asks the engine how many tokens something would be, one question after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QTimer

from app.engine_link.background import in_background
from app.engine_link.bridge import EngineBridge
from app.engine_link.status import EngineStatus
from engine.commands import Count
from engine.events import Counted, PlanSummary
from engine.request import ChatRequest

_PATIENCE_MS = 5_000
"""The engine is silent about what it cannot count; then it is the next question's turn."""


@dataclass(frozen=True, slots=True)
class _Question:
    build: Callable[[], ChatRequest]
    then: Callable[[int], None]
    id: str


class ComposerTokenCounter(QObject):
    """Counts off the window's thread. Of questions under one name only the newest is answered.

    Without a model nothing is counted; when another model is loaded, `then` of what was not yet
    answered is called with the new model's count.
    """

    def __init__(self, bridge: EngineBridge, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._number = 0
        self._waiting: dict[str, _Question] = {}
        self._asked: tuple[str, _Question] | None = None
        self._plan: PlanSummary | None = bridge.status.plan
        self._patience = QTimer(self)
        self._patience.setSingleShot(True)
        self._patience.setInterval(_PATIENCE_MS)
        self._patience.timeout.connect(self._give_up)
        bridge.subscribe(Counted, self._counted)
        bridge.status_changed.connect(self._status_changed)

    def ask(self, name: str, build: Callable[[], ChatRequest], then: Callable[[int], None]) -> None:
        """Have a request counted; `then` gets its tokens, unless `name` is asked anew before.

        `build` makes it, beside the window's thread: conversations can be long.
        """
        self._number += 1
        question = _Question(build, then, f"count-{self._number}")
        self._waiting.pop(name, None)
        self._waiting[name] = question
        self._next()

    def forget(self, name: str) -> None:
        """The answer to this question matters no more."""
        self._waiting.pop(name, None)
        if self._asked is not None and self._asked[0] == name:
            self._asked = (name, replace(self._asked[1], then=lambda _tokens: None))

    def _next(self) -> None:
        if self._asked is not None or not self._waiting or self._bridge.status.plan is None:
            return
        name = next(iter(self._waiting))
        question = self._waiting.pop(name)
        self._asked = (name, question)
        self._patience.stop()

        def submit(request: ChatRequest) -> None:
            if self._asked is not None and self._asked[1].id == question.id:
                self._patience.start()  # not before: on a busy machine building takes its time
                self._bridge.submit(Count(replace(request, id=question.id)))

        in_background(self, question.build, submit, self._unforeseen)

    def _counted(self, event: Counted) -> None:
        if self._asked is None or self._asked[1].id != event.request_id:
            return
        name, question = self._asked
        self._asked = None
        if name not in self._waiting:  # else a newer one of this name is on its way
            question.then(event.prompt_tokens)
        self._next()

    def _unforeseen(self, error: Exception) -> None:
        self._give_up()
        raise error

    def _give_up(self) -> None:
        self._asked = None
        self._next()

    def _status_changed(self, status: EngineStatus) -> None:
        """Ask again where another model may leave the last question unanswered."""
        if status.plan is self._plan:
            return
        self._plan = status.plan
        if self._asked is not None:
            name, question = self._asked
            self._asked = None
            self._waiting = {name: question, **self._waiting}
        self._next()
