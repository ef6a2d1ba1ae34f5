"""A thread that answers questions beside the engine's: the newest one, and none older."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

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
