"""Questions to the engine, whose answers reach whoever asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import count
from typing import TypeVar, overload

from PySide6.QtCore import QObject
from shiboken6 import isValid

from app.engine_link.background import in_background
from app.engine_link.bridge import EngineBridge
from engine.commands import Count, FindDrafts, Preview, Question, QuestionId
from engine.events import Counted, DraftsFound, Previewed
from engine.request import ChatRequest

_askers = count(1)

Told = TypeVar("Told", Counted, Previewed, DraftsFound)


class Asker(QObject):
    """Asks the engine one thing at a time: a newer question takes the place of the one before.

    The engine answers once it can. Nobody hears of it if the asker is gone by then.
    """

    def __init__(self, bridge: EngineBridge, parent: QObject) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._id = QuestionId(next(_askers))

    @overload
    def ask(self, question: Count, then: Callable[[Counted], None]) -> None: ...

    @overload
    def ask(self, question: Preview, then: Callable[[Previewed], None]) -> None: ...

    @overload
    def ask(self, question: FindDrafts, then: Callable[[DraftsFound], None]) -> None: ...

    def ask(self, question: Question, then: Callable[[Told], None]) -> None:
        """Ask; `then` gets the answer."""
        self.forget()
        self._bridge.ask(replace(question, id=self._id), partial(self._hear, then))

    def count(
        self,
        build: Callable[[], ChatRequest],
        then: Callable[[int], None],
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for the tokens of a request.

        Args:
            build: makes it, beside the window's thread: conversations can be long.
            then: gets the tokens.
            refused: called instead where the model's template does not take the request.
        """
        self.forget()
        number = self._id

        def take(counted: Counted) -> None:
            if counted.refused:
                refused()
            else:
                then(counted.prompt_tokens)

        def submit(request: ChatRequest) -> None:
            if number == self._id:
                self.ask(Count(request), take)

        in_background(self, build, submit, _raise)

    def forget(self) -> None:
        """Want no answer any more."""
        self._bridge.forget(self._id)
        self._id = replace(self._id, number=self._id.number + 1)

    def _hear(self, then: Callable[[Told], None], answer: Told) -> None:
        if isValid(self):
            then(answer)


def _raise(error: Exception) -> None:
    raise error
