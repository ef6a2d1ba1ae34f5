"""How long a request is: counted beside the engine's thread, while that writes or loads."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import perf_counter

from engine.answering import read
from engine.events import Counted
from engine.loading.load import LoadedPair
from engine.request import ChatRequest

_log = logging.getLogger(__name__)


class TokenCounter:
    """Answers `Count` in a thread of its own, which begins with the first question.

    A question that comes while another one waits takes its place. Without a model, and for a
    conversation that its template does not take, there is no answer. What the tokenizer has encoded
    lately it still knows, so a growing conversation costs what is new in it, and an answer to what
    was counted need not encode it again.

    Args:
        emit: takes the answers; called from the counter's thread.
        pair: the loaded pair in force.
    """

    def __init__(
        self, emit: Callable[[Counted], None], pair: Callable[[], LoadedPair | None]
    ) -> None:
        self._emit = emit
        self._pair = pair
        self._wake = threading.Condition()
        self._question: ChatRequest | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def ask(self, request: ChatRequest) -> None:
        """Count this request, and no older one; never blocks."""
        with self._wake:
            if self._closed:
                return
            self._question = request
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="token-counter", daemon=True)
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
        while (request := self._next()) is not None:
            try:
                counted = self._count(request)
            except BaseException:  # noqa: BLE001 - a number is missing, nothing worse
                _log.debug("a conversation could not be counted", exc_info=True)
                continue
            if counted is not None and self._question is None:
                self._emit(counted)

    def _next(self) -> ChatRequest | None:
        with self._wake:
            self._wake.wait_for(lambda: self._closed or self._question is not None)
            request, self._question = self._question, None
            return None if self._closed else request

    def _count(self, request: ChatRequest) -> Counted | None:
        pair = self._pair()
        if pair is None:
            return None
        # Not the pair: its weights must be free to go meanwhile.
        template, tokenizer, context = pair.template, pair.tokenizer, pair.plan.context
        del pair
        tokens = len(read(request, template, tokenizer).ids) if request.messages else 0
        return Counted(perf_counter(), request.id, tokens, context)
