"""How long a request is: counted beside the engine's thread, while that writes or loads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from engine.events import Counted
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.service.newest_question import NewestQuestion
from engine.session.answering import read


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
        self._pair = pair
        self._thread = NewestQuestion[ChatRequest, Counted](
            "token-counter", self._count, emit, logging.DEBUG
        )

    def ask(self, request: ChatRequest) -> None:
        """Count this request, and no older one; never blocks."""
        self._thread.ask(request)

    def close(self, timeout: float) -> None:
        """End the thread."""
        self._thread.close(timeout)

    def _count(self, request: ChatRequest) -> Counted | None:
        pair = self._pair()
        if pair is None:
            return None
        # Not the pair: its weights must be free to go meanwhile.
        template, tokenizer, context = pair.template, pair.tokenizer, pair.plan.context
        del pair
        tokens = len(read(request, template, tokenizer).ids) if request.messages else 0
        return Counted(perf_counter(), request.id, tokens, context)
