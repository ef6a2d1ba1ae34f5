"""Batches of recorded sequences of similar length, in an order that a resumed training repeats."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from engine.errors import UserFixable
from engine.language import tr
from engine.train.recording import Recording, held_out

POOL = 16
"""Batches that are made at once, from sequences sorted by length."""


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Position of a batch in the data: its epoch, and its number in that epoch."""

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
        next: position of the batch after it.
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
        """Copy the tensors to a device."""
        return Batch(
            self.tokens.to(device),
            self.answers.to(device),
            self.lengths.to(device),
            self.features.to(device),
            self.hidden.to(device),
            self.next,
        )


class Batches:
    """Endless batches to train on, and held-out batches to measure with.

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
        measured = [held_out(tokens, answers) for tokens, answers in pairs]
        self._held_out = [one for one, kept in enumerate(measured) if kept]
        self._trained = [one for one, kept in enumerate(measured) if not kept]
        if not self._trained:
            raise UserFixable(
                tr("The data hold no answer that could be learned from."),
                tr(
                    'Give lines like {"messages": [{"role": "user", "content": "..."}, '
                    '{"role": "assistant", "content": "..."}]}, or plain texts.'
                ),
            )

    def from_place(self, place: BatchPlace) -> Iterator[Batch]:
        """Yield batches from a position on, without end."""
        epoch, skip = place.epoch, place.batch
        while True:
            groups = self._order(epoch)
            for number in range(skip, len(groups)):
                last = number + 1 == len(groups)
                following = BatchPlace(epoch + 1) if last else BatchPlace(epoch, number + 1)
                yield self._batch(groups[number], following)
            epoch, skip = epoch + 1, 0

    def held_out(self, most: int) -> list[Batch]:
        """Return batches of sequences never trained on, one at least, of about `most` tokens."""
        chosen, total = [], 0
        for one in self._held_out or self._trained[:1]:
            chosen.append(one)
            total += len(self._recording.tokens[one])
            if total >= most:
                break
        return [self._batch(group, BatchPlace()) for group in self._groups(chosen)]

    def _order(self, epoch: int) -> list[list[int]]:
        rng = random.Random(f"{self._seed} {epoch}")  # noqa: S311 - an order
        order = list(self._trained)
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
        """Group sequences so that `_most` tokens hold a group padded to its longest."""
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
        tokens = [torch.from_numpy(recording.tokens[one]) for one in group]
        answers = [torch.from_numpy(recording.answers[one]) for one in group]
        states = pad_sequence([recording.states(one) for one in group], batch_first=True)
        hidden = states[:, :, -1].float()
        return Batch(
            pad_sequence(tokens, batch_first=True),
            pad_sequence(answers, batch_first=True),
            torch.tensor([len(one) for one in tokens]),
            states[:, :, :taps].flatten(2).float() if taps else hidden,
            hidden,
            following,
        )
