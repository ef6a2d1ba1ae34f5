"""What a request wants to know of its prompt: probabilities of its tokens, or an embedding."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np

from engine.backend.decoder import Forward
from engine.events import Alternative, PromptRead, PromptToken
from engine.model.text.tokenizer import Tokenizer
from engine.request import ChatRequest, PromptDetail
from engine.speculative.decoding import Decoding, likeliest


class PromptDetails:
    """Collects what is told while the prompt is processed.

    Args:
        request: with its wish.
        ids: the prompt.
        tokenizer: of the model.
    """

    def __init__(self, request: ChatRequest, ids: Sequence[int], tokenizer: Tokenizer) -> None:
        self.logits = request.detail is PromptDetail.LOGPROBS
        self._request, self._ids, self._tokenizer = request, tuple(ids), tokenizer
        self._tokens = [PromptToken(ids[0], self._spelled(ids[0]))] if self.logits else []
        self._sum: np.ndarray[tuple[int, ...], np.dtype[np.float64]] | None = None

    @classmethod
    def of(
        cls, request: ChatRequest, ids: Sequence[int], tokenizer: Tokenizer
    ) -> PromptDetails | None:
        """Return what collects them; None: nothing is wanted."""
        wanted = request.detail is not PromptDetail.NONE
        return cls(request, ids, tokenizer) if wanted else None

    def take(self, first: int, found: Forward) -> None:
        """Take the results of a forward over the tokens from the `first` on."""
        if not self.logits:
            own = found.hidden.sum(axis=0, dtype=np.float64)
            self._sum = own if self._sum is None else self._sum + own
            return
        for row, token in zip(found.logits, self._ids[first + 1 :], strict=False):
            weights = np.exp(row.astype(np.float64) - row.max())
            others = likeliest(row, most) if (most := self._request.alternatives) else ()
            told = tuple(Alternative(each, self._spelled(each), chance) for each, chance in others)
            chance = float(weights[token] / weights.sum())
            self._tokens.append(PromptToken(token, self._spelled(token), chance, told))

    def told(self, decoding: Decoding) -> PromptRead:
        """Return all of it; the prompt is processed but for its last token."""
        embedding: tuple[float, ...] = ()
        if not self.logits:
            decoding.read_last(self)
            if self._sum is not None:
                embedding = tuple((self._sum / len(self._ids)).tolist())
        return PromptRead(perf_counter(), self._request.id, tuple(self._tokens), embedding)

    def _spelled(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode("utf-8", "replace")
