"""Rows of one length, filled with whole documents, each of which sees only itself."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.train.scratch.corpus import Documents
from engine.train.scratch.recipe import Phase, Source

_OPEN = 64
"""Rows that are being filled at a time; the next document goes where it leaves the least room."""


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch.

    Attributes:
        tokens: int64 [rows, n].
        learned: bool [rows, n]; the tokens to be foretold from those before them.
        document: int64 [rows, n]; a number per document, -1 where the row is empty.
        count: tokens that are no filling.
    """

    tokens: NDArray[np.int64]
    learned: NDArray[np.bool_]
    document: NDArray[np.int64]

    @property
    def count(self) -> int:
        """Tokens that are no filling."""
        return int((self.document >= 0).sum())


class Packer:
    """Endless batches of a phase, pass after pass; any pass can be begun anew.

    What is longer than the phase's rows is left to a phase with longer ones.

    Args:
        phase: its sources, and how long its rows are.
        learned: documents by source.
        rows: of a batch.
        seed: of the order.
    """

    def __init__(self, phase: Phase, learned: dict[str, Documents], rows: int, seed: int) -> None:
        self._phase, self._learned = phase, learned
        self._rows, self._length, self._seed = rows, phase.context, seed

    def batches(self, skip: int = 0) -> Iterator[Rows]:
        """All from the one with the number `skip` on, for ever."""
        number = passed = 0
        while True:
            before = number
            for rows in self._batched(self._packed(self._order(passed))):
                if number >= skip:
                    yield self._batch(rows)
                number += 1
            passed += 1
            if number == before:
                raise ValueError(f"the phase {self._phase.name} fills no batch")

    def _order(self, passed: int) -> list[tuple[str, int]]:
        rng = random.Random(f"{self._seed} {self._phase.name} {passed}")  # noqa: S311 - an order
        order = [
            (source.name, index)
            for source in self._phase.sources
            for index in chosen(source, self._learned, rng)
        ]
        rng.shuffle(order)
        return order

    def _packed(self, order: Sequence[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
        """Documents that share a row."""
        rows: list[tuple[int, list[tuple[str, int]]]] = []
        for name, index in order:
            documents = self._learned[name]
            start = int(documents.ends[index - 1]) if index else 0
            size = int(documents.ends[index]) - start
            if size > self._length:
                continue
            fitting = [place for place, (room, _) in enumerate(rows) if room >= size]
            if fitting:
                place = min(fitting, key=lambda each: rows[each][0])
                room, row = rows[place]
                row.append((name, index))
                rows[place] = (room - size, row)
                if room - size < 8:
                    yield rows.pop(place)[1]
                continue
            rows.append((self._length - size, [(name, index)]))
            if len(rows) > _OPEN:
                fullest = min(range(len(rows)), key=lambda each: rows[each][0])
                yield rows.pop(fullest)[1]
        yield from (row for _, row in rows)

    def _batched(
        self, packed: Iterator[list[tuple[str, int]]]
    ) -> Iterator[list[list[tuple[str, int]]]]:
        """Only whole ones: what is over at the end of a pass comes again in another order."""
        batch: list[list[tuple[str, int]]] = []
        for row in packed:
            batch.append(row)
            if len(batch) == self._rows:
                yield batch
                batch = []

    def _batch(self, rows: list[list[tuple[str, int]]]) -> Rows:
        return filled(
            [[self._learned[name].one(index) for name, index in row] for row in rows],
            self._length,
            answers_only=self._phase.answers_only,
            joined=[self._joined(row) for row in rows],
        )

    def _joined(self, row: list[tuple[str, int]]) -> list[bool]:
        """Which documents go on with the one before; the same whenever the row comes."""
        rng = random.Random(f"{self._seed} {row[0]} {row[-1]}")  # noqa: S311 - a mix
        return [False, *(rng.random() < self._phase.joined for _ in row[1:])]


def filled(
    rows: Sequence[Sequence[tuple[NDArray[np.uint16], NDArray[np.bool_]]]],
    length: int,
    *,
    answers_only: bool,
    joined: Sequence[Sequence[bool]] = (),
) -> Rows:
    """Documents side by side; the first token of each is never foretold.

    Args:
        joined: of each row's documents, which are one with the document before: they begin without
            BOS, and see it.
    """
    shape = len(rows), length
    tokens, document = np.zeros(shape, np.int64), np.full(shape, -1, np.int64)
    learned = np.zeros(shape, np.bool_)
    for row, documents in enumerate(rows):
        at = number = 0
        for which, (whole, marks) in enumerate(documents):
            goes_on = bool(joined) and joined[row][which]
            ids, answers = (whole[1:], marks[1:]) if goes_on else (whole, marks)
            number += not goes_on
            place = slice(at, at + len(ids))
            tokens[row, place], document[row, place] = ids, number
            learned[row, place] = answers if answers_only else True
            learned[row, at] = learned[row, at] and goes_on
            at += len(ids)
    return Rows(tokens, learned, document)


def in_rows(documents: Documents, rows: int, length: int, most: int) -> list[Rows]:
    """Documents to measure with, one behind the other, in batches; `most` tokens in all."""
    row: list[tuple[NDArray[np.uint16], NDArray[np.bool_]]] = []
    full: list[list[tuple[NDArray[np.uint16], NDArray[np.bool_]]]] = []
    room, total = length, 0
    for index in range(len(documents)):
        ids, answers = documents.one(index)
        total += len(ids)
        if len(ids) > room:
            full.append(row)
            row, room = [], length
        row.append((ids, answers))
        room -= len(ids)
        if total >= most:
            break
    full.append(row)
    return [
        filled(full[start : start + rows], length, answers_only=True)
        for start in range(0, len(full), rows)
    ]


def chosen(source: Source, learned: dict[str, Documents], rng: random.Random) -> list[int]:
    """Which documents a pass reads, and how often."""
    count = len(learned[source.name])
    whole, part = divmod(source.times, 1)
    indices = list(range(count)) * int(whole)
    return indices + rng.sample(range(count), round(part * count))
