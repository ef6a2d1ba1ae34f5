"""The part of a scripted engine that scenes and tests share: questions are answered at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

from app.showcase.budgets import previewed
from app.showcase.script import PLAN
from engine.commands import Command, Count, FindDrafts, Load, Preview
from engine.events import Counted, DraftHere, DraftsFound, Event, Previewed
from engine.request import ChatRequest


class ScriptedEngine(ABC):
    """Speaks the protocol of `engine.service.engine.Engine`, without a model.

    Attributes:
        preview: the answer to `Preview`.
        context: tokens that an answer may fill.
        drafts: the answer to `FindDrafts`.
    """

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self.preview: Callable[[Load], Previewed] = previewed
        self.context = PLAN.context
        self.drafts: tuple[DraftHere, ...] = ()

    def submit(self, command: Command) -> None:
        """Take a command of the window."""
        match command:
            case Preview(load, question):
                self._emit(replace(self.preview(load), id=question))
            case Count(request, question):
                tokens = self.count(request)
                self._emit(Counted(perf_counter(), question, tokens, self.context))
            case FindDrafts(model, question):
                self._emit(DraftsFound(perf_counter(), model, self.drafts, question))
            case _:
                self.perform(command)

    @abstractmethod
    def count(self, request: ChatRequest) -> int:
        """Return the tokens of a request."""

    @abstractmethod
    def perform(self, command: Command) -> None:
        """Do what takes time."""

    @abstractmethod
    def close(self, timeout: float = 5.0) -> None:
        """End whatever runs."""
