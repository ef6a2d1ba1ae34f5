"""Words put into the mouth of a draft that drafts in parallel: its first and its second choices.

As in `engine.bench.scripted_draft` the draft really runs. The likeliest token at a position is
right as often as told; where it is wrong, the second likeliest is right in a told share of cases.
Which choice is right at every position is the run's acceptance trace, which the simulator of lanes
takes as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log

import numpy as np

from engine.backend.decoder import Decoder
from engine.backend.native.cancel import CancelFlag
from engine.backend.round import Candidates, Ranking, Script
from engine.backend.sequence import ROOT, SequenceState
from engine.bench.scripted_draft import STRETCH
from engine.model.weights.readable import Floats
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

_LEAST = 1e-3
"""Of chances whose logs are taken."""


@dataclass(frozen=True, slots=True)
class LaneLines:
    """What the draft says at each position.

    Attributes:
        right: the target's own text.
        ranks: which choice of the draft says it, 0 or 1; None: neither.
        first, second: chances that the draft gives its choices.
        vocab: number of tokens.
    """

    right: Sequence[int]
    ranks: Sequence[int | None]
    first: float
    second: float
    vocab: int

    def right_at(self, position: int) -> int:
        """The target's own token there."""
        return self.right[position] if position < len(self.right) else 0

    def choices(self, position: int) -> list[tuple[int, float]]:
        """The scripted tokens there with the logs of their chances, the best first."""
        right = self.right_at(position)
        rank = self.ranks[position] if position < len(self.ranks) else None
        said = [right if rank == place else (right + 1 + place) % self.vocab for place in range(2)]
        first = max(log(max(self.first, _LEAST)), log(max(self.second, _LEAST)))
        choices = [(said[0], first)]
        return [*choices, (said[1], log(self.second))] if self.second >= _LEAST else choices

    @property
    def script(self) -> Script:
        """The first choices, for a draft that drafts chains in turns."""
        places = range(len(self.right))
        return Script([self.choices(place)[0][0] for place in places], log(max(self.first, _LEAST)))

    def put_in(
        self, own: Sequence[tuple[int, float]], position: int, width: int
    ) -> list[tuple[int, float]]:
        """The scripted tokens before the draft's own, which are never right."""
        said = self.choices(position)
        taken = {self.right_at(position), *(token for token, _ in said)}
        rest = log(max(1 - self.first - self.second, _LEAST))
        others = [
            (token, min(weight + rest, said[-1][1])) for token, weight in own if token not in taken
        ]
        return [*said, *others][:width]


def write_lines(
    tokens: Sequence[int], vocab: int, acceptance: float, second: float, seed: int
) -> LaneLines:
    """A script in which every stretch of text has its share of right and of nearly right choices.

    Args:
        tokens: the prompt and the target's own greedy text.
        vocab: number of tokens.
        acceptance: share of first choices that are right.
        second: share of second choices that are, where the first is not.
        seed: chooses the positions.
    """
    rng = np.random.default_rng(seed)
    firsts = round(acceptance * STRETCH)
    seconds = firsts + round(second * (STRETCH - firsts))
    ranks: list[int | None] = []
    while len(ranks) < len(tokens):
        places = rng.permutation(STRETCH)
        ranks += [0 if place < firsts else 1 if place < seconds else None for place in places]
    chance = second * (1 - acceptance)
    return LaneLines(tokens, ranks[: len(tokens)], acceptance, chance, vocab)


class LaneDraft(Decoder):
    """A draft for the lane that says what it is told, at the cost of what it would have said.

    Args:
        draft: what computes.

    Attributes:
        lines: what it says; None: what it says itself.
    """

    def __init__(self, draft: Decoder) -> None:
        super().__init__(draft.config, draft.segments, draft.ids)
        self.lines: LaneLines | None = None

    def expand(
        self,
        state: SequenceState,
        tokens: Sequence[int],
        parents: Sequence[int],
        wanted: Sequence[int],
        ranking: Ranking,
        width: int,
        cancel: CancelFlag | None = None,
    ) -> list[Candidates] | None:
        """As the draft itself; then the script's tokens come first."""
        first, lines = len(state.staged), self.lines
        found = super().expand(state, tokens, parents, wanted, ranking, width, cancel)
        if found is None or lines is None:
            return found
        return [
            lines.put_in(own, _position(state, first + row) + 1, width)
            for row, own in zip(wanted, found, strict=True)
        ]


class LanePrompter(Sampler):
    """The same where the draft's candidates are ranked here, row by row."""

    def __init__(self, lines: LaneLines) -> None:
        super().__init__(SamplingParams())
        self._lines = lines

    def rank(self, logits: Floats, position: int) -> Floats:
        """Log weights in which the script's tokens are the likeliest."""
        weights, lines = super().rank(logits, position), self._lines
        said = lines.choices(position)
        np.minimum(weights, np.float32(said[-1][1] - 1), out=weights)
        weights[:, lines.right_at(position)] = -np.inf
        for token, weight in said:
            weights[:, token] = weight
        return weights


def _position(state: SequenceState, node: int) -> int:
    """Where in the sequence a staged node stands."""
    position = len(state)
    while (node := state.parents[node]) != ROOT:
        position += 1
    return position
