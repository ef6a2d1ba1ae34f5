"""Batches of sequences alike in length; their order, and a place in it, can be found again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from collections.abc import Sequence as Sequences
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.errors import UserFixable
from engine.language import tr
from engine.train.conversations import Example
from engine.train.drawing import Drawing, is_held_out
from engine.train.sequences import Renderer, Sequence

POOL = 16
"""Batches that are made at a time, of sequences sorted by length."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the data a batch comes from: examples drawn before its pool, its number in it."""

    epoch: int = 0
    drawn: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Sequences side by side, padded at their ends.

    Attributes:
        tokens: int64 [batch, longest].
        answers: bool [batch, longest]; pads are False.
        lengths: int64 [batch].
        next: where the batch behind it comes from.
    """

    tokens: NDArray[np.int64]
    answers: NDArray[np.bool_]
    lengths: NDArray[np.int64]
    next: Place

    @property
    def count(self) -> int:
        """Tokens without pads."""
        return int(self.lengths.sum())


class Batches:
    """Endless batches for training, and those held out.

    Args:
        drawing: the examples.
        renderer: makes sequences of them.
        most: tokens of a batch, pads included.
        seed: of the order.
    """

    def __init__(self, drawing: Drawing, renderer: Renderer, most: int, seed: int) -> None:
        self._drawing, self._renderer = drawing, renderer
        self._most, self._seed = most, seed
        self.cut = 0

    def from_place(self, place: Place) -> Iterator[TokenBatch]:
        """Batches from a place on, without end.

        Raises:
            UserFixable: a whole epoch had nothing to train on.
        """
        epoch = place.epoch
        while True:
            first, found = place if place.epoch == epoch else Place(epoch), False
            for batch in self._epoch(first):
                found = True
                yield batch
            if not found and first.drawn == 0:
                raise nothing_to_learn()
            epoch += 1

    def held_out(self, most: int) -> list[TokenBatch]:
        """At least one batch of sequences never trained on, of about `most` tokens in all.

        Raises:
            UserFixable: there is nothing at all.
        """
        kept: list[Sequence] = []
        spare: list[Sequence] = []
        for example in self._drawing.go_to(0, 0):
            if is_held_out(example):
                kept += self._sequences(example)
            elif not spare:
                spare += self._sequences(example)
            if sum(len(one.tokens) for one in kept) >= most:
                break
        if not kept and not spare:
            raise nothing_to_learn()
        kept = sorted(kept or spare, key=lambda one: len(one.tokens))
        return [_padded(group, Place()) for group in self._groups(kept)]

    def _epoch(self, place: Place) -> Iterator[TokenBatch]:
        pool: list[Sequence] = []
        tokens, start, skip = 0, place.drawn, place.batch
        for example in self._drawing.go_to(place.epoch, place.drawn):
            found = [] if is_held_out(example) else self._sequences(example)
            pool += found
            tokens += sum(len(one.tokens) for one in found)
            if tokens >= POOL * self._most:
                yield from self._pooled(pool, Place(place.epoch, start), skip)
                pool, tokens, start, skip = [], 0, self._drawing.drawn, 0
        if pool:
            yield from self._pooled(pool, Place(place.epoch, start), skip, last=True)

    def _sequences(self, example: Example) -> list[Sequence]:
        sequence = self._renderer.sequence(example)
        if sequence is None:
            return []
        self.cut += sequence.cut
        return [sequence]

    def _pooled(
        self, pool: list[Sequence], start: Place, skip: int, *, last: bool = False
    ) -> Iterator[TokenBatch]:
        groups = list(self._groups(sorted(pool, key=lambda one: len(one.tokens))))
        order = random.Random(f"{self._seed} {start.epoch} {start.drawn}")  # noqa: S311
        order.shuffle(groups)
        ends = Place(start.epoch + 1) if last else Place(start.epoch, self._drawing.drawn)
        for number in range(skip, len(groups)):
            more = number + 1 < len(groups)
            after = Place(start.epoch, start.drawn, number + 1) if more else ends
            yield _padded(groups[number], after)

    def _groups(self, ascending: list[Sequence]) -> Iterator[list[Sequence]]:
        """As many as fit, padded to the longest."""
        group: list[Sequence] = []
        for sequence in ascending:
            if group and (len(group) + 1) * len(sequence.tokens) > self._most:
                yield group
                group = []
            group.append(sequence)
        if group:
            yield group


def _padded(group: Sequences[Sequence], following: Place) -> TokenBatch:
    lengths = np.array([len(one.tokens) for one in group], dtype=np.int64)
    shape = len(group), int(lengths.max())
    tokens, answers = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.bool_)
    for row, one in enumerate(group):
        tokens[row, : len(one.tokens)] = one.tokens
        answers[row, : len(one.tokens)] = one.answers
    return TokenBatch(tokens, answers, lengths, following)


def nothing_to_learn() -> UserFixable:
    """No conversation among the data."""
    return UserFixable(
        tr("The data hold no answer that could be learned from."),
        tr(
            'Give lines like {"messages": [{"role": "user", "content": "..."}, '
            '{"role": "assistant", "content": "..."}]}, or plain texts.'
        ),
    )
