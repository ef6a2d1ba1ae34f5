"""The real engine, as a measurement needs it: heard without the window, paced, on any shape."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from app.engine_link.bridge import EngineLike
from engine.commands import Command, Generate
from engine.events import AnswerStats, Event, Finished, RoundFinished
from engine.request import ChatRequest, Message, Role

QUESTION = "Explain in many paragraphs, with code, how a computer works."
_PATIENCE_S = 120.0


class Tap:
    """The engine with an ear at its events, which also hears when the window's thread sleeps.

    Args:
        tokens: most tokens of an answer.
    """

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens
        self._muted = False
        self._ended = threading.Event()
        self._began = 0.0
        self._told = 0
        self.pace: float | None = None
        """Tokens per second at which answers are told; None: as fast as they are written."""
        self.stats: AnswerStats | None = None
        """Statistics of the answer that ended last."""

    def make(self, emit: Callable[[Event], None]) -> EngineLike:
        """The factory that a window is given."""

        def listen(event: Event) -> None:
            if not self._muted:
                emit(event)
            if isinstance(event, RoundFinished) and self.pace is not None:
                self._wait(event)
            elif isinstance(event, Finished):
                self.stats = event.stats
                self._ended.set()

        from app.showcase.measure.random_model import (
            RandomModels,  # only now, as `real_engine` does
        )

        self._engine = RandomModels(listen)
        return self

    def submit(self, command: Command) -> None:
        """Pass a command on; answers get their limit, and only that ends them."""
        if isinstance(command, Generate):
            request = replace(command.request, max_tokens=self._tokens, stop_repetition=False)
            command = Generate(request)
        self._engine.submit(command)

    def close(self, timeout: float = 5.0) -> None:
        """End the engine."""
        self._engine.close(timeout)

    def answer_alone(self) -> None:
        """Have an answer written while the calling thread sleeps and the window hears nothing.

        Raises:
            TimeoutError: it does not end.
        """
        self._muted = True
        self._ended.clear()
        self.submit(Generate(ChatRequest("alone", (Message(Role.USER, QUESTION),))))
        ended = self._ended.wait(_PATIENCE_S)
        self._muted = False
        if not ended:
            raise TimeoutError("the engine alone does not finish its answer")

    @property
    def tokens_per_s(self) -> float:
        """Return the speed of the answer that ended last, by the engine's own account."""
        return (self.stats.tokens_per_s if self.stats else None) or 0.0

    def _wait(self, done: RoundFinished) -> None:
        """Hold the engine's thread until this round is due."""
        if done.index == 0:
            self._began, self._told = done.at, 0
        self._told += done.committed
        due = self._began + self._told / (self.pace or 1.0)
        time.sleep(max(due - time.perf_counter(), 0.0))
