"""A target that speaks in riddles, and a head that solves them, given the right features.

Every token changes a memory, and the memory says which token comes next. The target's feature is
the memory (with its position); the head takes it on by one token, so it is always right. Where
anything is amiss it is always wrong: a feature of another position, one that does not go on from
the pair before, a committed pair that was computed from what the head itself has guessed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from head_models import head_config, small_target
from numpy.typing import NDArray

from engine.backend.decoder import Decoder
from engine.backend.ledger import unlimited
from engine.backend.segment import Segment, SegmentCache, SegmentOutput
from engine.backend.step import Step
from engine.model.config import Fusion
from engine.model.weights.readable import Floats

VOCAB = 61
MODULUS = 97
WIDTH = 3
"""Numbers of a feature: memory, position, whether the target gave it."""

FUSION = Fusion("dgf", WIDTH)


def following(memory: int, token: int) -> int:
    """The memory after one more token."""
    return (5 * memory + 7 * token + 3) % MODULUS


def said(memory: int) -> int:
    """The token that comes next."""
    return (11 * memory + 4) % VOCAB


def answer(prompt: Sequence[int], count: int) -> list[int]:
    """What the target writes when it is greedy."""
    memory, written = 0, list[int]()
    for token in prompt:
        memory = following(memory, token)
    while len(written) < count:
        written.append(said(memory))
        memory = following(memory, written[-1])
    return written


class RiddleCache(SegmentCache):
    """Of every slot its memory, and whether the target's features gave it."""

    def __init__(self, slots: int) -> None:
        self.rows: NDArray[np.int64] = np.full((slots, 2), -1)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes

    def copy_prefix(self, other: SegmentCache, slots: int) -> None:
        assert isinstance(other, RiddleCache)
        self.rows[:slots] = other.rows[:slots]

    def move(self, sources: Sequence[int], target: int) -> None:
        self.rows[target : target + len(sources)] = self.rows[list(sources)]


class RiddleSegment(Segment):
    """What target and head have in common."""

    device = "paper"
    signature = "paper"
    weight_bytes = mapped_bytes = 0

    def __init__(self) -> None:
        super().__init__(range(1))

    def new_cache(self, slots: int) -> RiddleCache:
        return RiddleCache(slots)

    def run(self, step: Step, cache: SegmentCache, hidden: Floats | None) -> SegmentOutput:
        assert isinstance(cache, RiddleCache)
        output, logits = [], []
        for row, token in enumerate(step.tokens):
            parent = step.parents[step.first + row]
            before = step.committed + parent  # of a root's child the last committed slot
            memory = int(cache.rows[before, 0]) if before >= 0 else 0
            position = int(step.positions[row])
            feature = None if hidden is None else hidden[row]
            memory, given = self.pair(memory, token, position, feature, cache, step.committed)
            cache.rows[step.first_slot + row] = memory, given
            output.append((memory, position + (hidden is not None), hidden is None))
            logits.append(-0.3 * ((np.arange(VOCAB) - said(memory)) % VOCAB))
        rows = range(len(output)) if step.logit_rows is None else step.logit_rows
        wanted = np.array([logits[row] for row in rows], dtype=np.float32).reshape(-1, VOCAB)
        return SegmentOutput(np.array(output, dtype=np.float32), wanted, {})

    def pair(
        self,
        memory: int,
        token: int,
        position: int,
        feature: Floats | None,
        cache: RiddleCache,
        committed: int,
    ) -> tuple[int, int]:
        """The memory after the token, and whether the target's feature gave it."""
        del position, feature, cache, committed
        return following(memory, token), 1


class RiddleHead(RiddleSegment):
    """Takes the target's memory on by one token."""

    def pair(
        self,
        memory: int,
        token: int,
        position: int,
        feature: Floats | None,
        cache: RiddleCache,
        committed: int,
    ) -> tuple[int, int]:
        assert feature is not None
        given, where, genuine = map(int, feature)
        right = where == position and (position == 0 or given == memory)
        right = right and bool((cache.rows[:committed, 1] == 1).all())
        return following(given, token) + (0 if right else 1), genuine


def riddle_target() -> Decoder:
    """The target, which keeps features for the head."""
    target = Decoder(replace(small_target(), vocab_size=VOCAB), [RiddleSegment()])
    target.feed(FUSION, unlimited())
    return target


def riddle_head() -> Decoder:
    """The head."""
    return Decoder(replace(head_config("dgf"), vocab_size=VOCAB, fusion=FUSION), [RiddleHead()])
