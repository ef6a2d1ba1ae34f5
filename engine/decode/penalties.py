"""What penalties take from the logits of tokens said before, kept up to date with an answer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engine.request import SamplingParams


class SaidTokens:
    """The tokens of a growing sequence, and what they lose; see `engine.backend.segment.Penalties`.

    Args:
        params: the sampling parameters.
        answer_start: position from which presence and frequency penalties count.
    """

    def __init__(self, params: SamplingParams, answer_start: int) -> None:
        self.repetition = params.repetition_penalty
        self._params, self._answer_start = params, answer_start
        self._clear()

    @property
    def count(self) -> int:
        """Different tokens so far."""
        return len(self._places)

    def follow(self, tokens: Sequence[int]) -> None:
        """Count what is new of a list that grows; another one, or a shorter one, from its start."""
        if tokens is not self._tokens or len(tokens) < self._length:
            self._clear()
        for position in range(self._length, len(tokens)):
            self._hear(tokens[position], in_answer=position >= self._answer_start)
        self._tokens, self._length = tokens, len(tokens)

    def _clear(self) -> None:
        self._places: dict[int, int] = {}
        self._answered: list[int] = []
        self._tokens: Sequence[int] = ()
        self._length = 0
        self.said: NDArray[np.int32] = np.zeros(256, np.int32)
        self.minus: NDArray[np.float64] = np.zeros(256, np.float64)

    def _hear(self, token: int, *, in_answer: bool) -> None:
        place = self._places.setdefault(token, len(self._places))
        if place == len(self._answered):
            if place == len(self.said):
                self.said = np.concatenate((self.said, np.zeros_like(self.said)))
                self.minus = np.concatenate((self.minus, np.zeros_like(self.minus)))
            self._answered.append(0)
            self.said[place] = token
        if in_answer:
            self._answered[place] += 1
            params = self._params
            self.minus[place] = (
                params.presence_penalty + params.frequency_penalty * self._answered[place]
            )
