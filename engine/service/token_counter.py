"""How long a request is: counted beside the engine's thread, while that writes or loads."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

from engine.events import Counted
from engine.loading.load import LoadedPair
from engine.request import ChatRequest
from engine.service.newest_question import NewestQuestion
from engine.session.answer import read


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
