"""Batches of recorded sequences alike in length, in an order that can be found again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import UserFixable
from engine.language import tr
from engine.train.recording import Recording, held_out

POOL = 16
"""Batches that are made at a time, of sequences sorted by length."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Where in the data a batch comes from."""

    epoch: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Sequences side by side, padded at their ends.

    Attributes:
        tokens: int64 [batch, longest].
        answers: bool [batch, longest]; pads are False.
        lengths: int64 [batch].
        features: fp32 [batch, longest, width], what a head takes; rows of pads are zeros.
        hidden: fp32 [batch, longest, hidden], what the target's output matrix takes.
        next: where the batch behind it comes from.
    """

    tokens: Tensor
    answers: Tensor
    lengths: Tensor
    features: Tensor
    hidden: Tensor
    next: BatchPlace = BatchPlace()

    @property
    def count(self) -> int:
        """Tokens without pads."""
        return int(self.lengths.sum())

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(
            self.tokens.to(device),
            self.answers.to(device),
            self.lengths.to(device),
            self.features.to(device),
            self.hidden.to(device),
            self.next,
        )


class Batches:
    """Endless batches for training, and those held out.

    Args:
        recording: the sequences.
        taps: how many tapped states lie before the final one; 0: features are the final states.
        most: tokens of a batch, pads included.
        seed: of the order.

    Raises:
        UserFixable: there is nothing to train on.
    """

    def __init__(self, recording: Recording, taps: int, most: int, seed: int) -> None:
        self._recording, self._taps, self._most, self._seed = recording, taps, most, seed
        pairs = zip(recording.tokens, recording.answers, strict=True)
        apart = [held_out(tokens, answers) for tokens, answers in pairs]
        self._kept = [one for one, kept in enumerate(apart) if kept]
        self._learned = [one for one, kept in enumerate(apart) if not kept]
        if not self._learned:
            raise nothing_to_learn()

    def from_place(self, place: BatchPlace) -> Iterator[Batch]:
        """Batches from a place on, without end."""
        epoch, skip = place.epoch, place.batch
        while True:
            groups = self._order(epoch)
            for number in range(skip, len(groups)):
                last = number + 1 == len(groups)
                following = BatchPlace(epoch + 1) if last else BatchPlace(epoch, number + 1)
                yield self._batch(groups[number], following)
            epoch, skip = epoch + 1, 0

    def held_out(self, most: int) -> list[Batch]:
        """At least one batch of sequences never trained on, of about `most` tokens in all."""
        chosen, total = [], 0
        for one in self._kept or self._learned[:1]:
            chosen.append(one)
            total += len(self._recording.tokens[one])
            if total >= most:
                break
        return [self._batch(group, BatchPlace()) for group in self._groups(chosen)]

    def _order(self, epoch: int) -> list[list[int]]:
        rng = random.Random(f"{self._seed} {epoch}")  # noqa: S311 - an order
        order = list(self._learned)
        rng.shuffle(order)
        groups: list[list[int]] = []
        pool: list[int] = []
        tokens = 0
        for one in order:
            pool.append(one)
            tokens += len(self._recording.tokens[one])
            if tokens >= POOL * self._most:
                groups += self._groups(pool)
                pool, tokens = [], 0
        groups += self._groups(pool)
        rng.shuffle(groups)
        return groups

    def _groups(self, pool: Sequence[int]) -> Iterator[list[int]]:
        """As many as fit, padded to the longest."""
        group: list[int] = []
        for one in sorted(pool, key=lambda each: len(self._recording.tokens[each])):
            if group and (len(group) + 1) * len(self._recording.tokens[one]) > self._most:
                yield group
                group = []
            group.append(one)
        if group:
            yield group

    def _batch(self, group: Sequence[int], following: BatchPlace) -> Batch:
        recording, taps = self._recording, self._taps
        lengths = torch.tensor([len(recording.tokens[one]) for one in group])
        shape = len(group), int(lengths.max())
        states = [recording.states(one) for one in group]
        width = states[0].shape[2]
        tokens, answers = (
            torch.zeros(shape, dtype=torch.int64),
            torch.zeros(shape, dtype=torch.bool),
        )
        hidden = torch.zeros(*shape, width)
        features = torch.zeros(*shape, taps * width) if taps else hidden
        for row, (one, found) in enumerate(zip(group, states, strict=True)):
            stop = len(recording.tokens[one])
            tokens[row, :stop] = torch.from_numpy(recording.tokens[one])
            answers[row, :stop] = torch.from_numpy(recording.answers[one])
            hidden[row, :stop] = found[:, -1]
            if taps:
                features[row, :stop] = found[:, :taps].flatten(1)
        return Batch(tokens, answers, lengths, features, hidden, following)


def nothing_to_learn() -> UserFixable:
    """The error for data without an answer."""
    return UserFixable(
        tr("The data hold no answer that could be learned from."),
        tr(
            'Give lines like {"messages": [{"role": "user", "content": "..."}, '
            '{"role": "assistant", "content": "..."}]}, or plain texts.'
        ),
    )
