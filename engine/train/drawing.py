"""In which order examples are drawn: files mixed by their sizes, shuffled, the same every time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from engine.train.conversations import Example, SourceFile

BUFFER = 4096
"""Examples among which the next one is chosen."""
BUFFER_CHARACTERS = 32 << 20
"""Most text in the buffer, whatever the examples are like."""
LANES = 64
"""Files that are open at a time; further ones wait behind these."""


class Drawing:
    """Examples without end, epoch after epoch; a position in them can be found again.

    Attributes:
        epoch, drawn: the epoch, and how many examples of it were drawn.
        skipped: lines without an example that were met so far, in all epochs.
    """

    def __init__(self, sources: Sequence[SourceFile], seed: int) -> None:
        self._sources, self._seed = sources, seed
        self.epoch = self.drawn = self.skipped = 0

    def go_to(self, epoch: int, drawn: int) -> Iterator[Example]:
        """The examples of an epoch from the one with this number on."""
        self.epoch, self.drawn = epoch, 0
        examples = self._shuffled(random.Random(f"{self._seed} {epoch}"))  # noqa: S311 - an order
        for example in examples:
            self.drawn += 1
            if self.drawn > drawn:
                yield example

    def _shuffled(self, rng: random.Random) -> Iterator[Example]:
        buffer: list[Example] = []
        held = 0
        for example in self._mixed(rng):
            buffer.append(example)
            held += example.size
            while len(buffer) > BUFFER or held > BUFFER_CHARACTERS:
                chosen = _taken(buffer, rng)
                held -= chosen.size
                yield chosen
        while buffer:
            yield _taken(buffer, rng)

    def _mixed(self, rng: random.Random) -> Iterator[Example]:
        """All lanes end at about the same time: each next example is of one as its size tells."""
        files = list(self._sources)
        rng.shuffle(files)
        lanes = [files[first::LANES] for first in range(min(LANES, len(files)))]
        sizes = [sum(file.size for file in lane) for lane in lanes]
        drawn = [self._one_by_one(lane) for lane in lanes]
        while drawn:
            chosen = rng.choices(range(len(drawn)), sizes)[0]
            example = next(drawn[chosen], None)
            if example is None:
                del drawn[chosen], sizes[chosen]
            else:
                yield example

    def _one_by_one(self, files: Sequence[SourceFile]) -> Iterator[Example]:
        for file in files:
            yield from file.examples(self._skip)

    def _skip(self) -> None:
        self.skipped += 1


def _taken(buffer: list[Example], rng: random.Random) -> Example:
    index = rng.randrange(len(buffer))
    buffer[index], buffer[-1] = buffer[-1], buffer[index]
    return buffer.pop()
