"""Answers of the target itself, many at a time: a draft has to predict what the target writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from engine.backend.decoder import Decoder
from engine.backend.native.batch import SequenceBatch
from engine.backend.native.segment import NativeSegment
from engine.backend.native.sizes import ROWS
from engine.errors import NotPossible
from engine.language import tr
from engine.model.weights.readable import Floats
from engine.train.recording import Recorded

TEMPERATURES = (0.0, 0.8)
"""In turns: people use both, and a draft has to predict both."""
LANES = 32
"""Answers at a time; with more of them a forward per answer is not noticeably cheaper."""
_TOP = 64
"""The likeliest tokens, from which one is drawn."""


@dataclass(slots=True)
class _Lane:
    """An answer being written."""

    index: int
    tokens: list[int]
    prompt: int
    temperature: float
    rng: np.random.Generator
    fed: int = 0
    states: list[Tensor] = field(default_factory=list)


class TargetWriter:
    """Writes answers of a target: each forward computes a token of up to `LANES` answers.

    Args:
        target: a whole model on the CPU.
        ends: tokens that end an answer.
        longest: tokens of prompt and answer together.
        longest_answer: tokens after which an answer is cut.
        taps: blocks whose outputs are kept.
        seed: of the draws, with the prompt's index.

    Raises:
        NotPossible: the target is not in the native backend.
    """

    def __init__(
        self,
        target: Decoder,
        ends: Iterable[int],
        *,
        longest: int,
        longest_answer: int,
        taps: tuple[int, ...] = (),
        seed: int = 0,
    ) -> None:
        segment = target.segments[0]
        if len(target.segments) > 1 or not isinstance(segment, NativeSegment):
            raise NotPossible(
                tr("Only a model on the processor writes answers to train from."),
                tr("Choose --device cpu, or train on the answers in the data with --given."),
            )
        self._batch = SequenceBatch(segment, LANES, longest)
        self._ends, self._taps, self._seed = frozenset(ends), taps, seed
        self._longest, self._longest_answer = longest, longest_answer
        self._lanes: dict[int, _Lane] = {}

    def write(self, prompts: Iterator[tuple[int, list[int]]]) -> Iterator[Recorded]:
        """Answer all prompts, and yield the answers in the order in which they end.

        Args:
            prompts: index and token ids; those that leave no room for an answer are left out.
        """
        free = list(range(LANES))
        while True:
            while free and (lane := self._begun(prompts)) is not None:
                self._batch.clear(free[-1])
                self._lanes[free.pop()] = lane
            if not self._lanes:
                return
            for place in self._step():
                free.append(place)
                yield self._recorded(self._lanes.pop(place))

    def _begun(self, prompts: Iterator[tuple[int, list[int]]]) -> _Lane | None:
        for index, ids in prompts:
            if len(ids) + 2 < self._longest:
                temperature = TEMPERATURES[index % len(TEMPERATURES)]
                rng = np.random.default_rng((self._seed, index))
                return _Lane(index, list(ids), len(ids), temperature, rng)
        return None

    def _step(self) -> list[int]:
        """Run one forward, and return the lanes whose answers have ended."""
        places: list[int] = []
        tokens: list[int] = []
        spans: list[tuple[_Lane, int, int]] = []
        speaking: list[tuple[int, _Lane, int]] = []
        # Those that write come first: one that reads its prompt fills what is left.
        order = sorted(self._lanes.items(), key=lambda item: item[1].fed < item[1].prompt)
        for place, lane in order:
            count = min(len(lane.tokens) - lane.fed, ROWS - len(tokens))
            if count <= 0:
                continue
            spans.append((lane, len(tokens), count))
            places += [place] * count
            tokens += lane.tokens[lane.fed : lane.fed + count]
            lane.fed += count
            if lane.fed == len(lane.tokens):
                speaking.append((place, lane, len(tokens) - 1))
        output = self._batch.forward(places, tokens, [row for *_, row in speaking], self._taps)
        states = stacked_states(output.hidden, output.taps, self._taps)
        for lane, first, count in spans:
            lane.states.append(states[first : first + count])
        if not speaking or output.logits is None:
            return []
        logits = torch.from_numpy(output.logits)
        return [
            place
            for (place, lane, _), token in zip(speaking, self._drawn(logits, speaking), strict=True)
            if self._said(lane, token)
        ]

    def _said(self, lane: _Lane, token: int) -> bool:
        """Append a token, and tell whether the answer has ended with it."""
        lane.tokens.append(token)
        written = len(lane.tokens) - lane.prompt
        full = len(lane.tokens) >= self._longest or written >= self._longest_answer
        return token in self._ends or full

    def _drawn(self, logits: Tensor, speaking: list[tuple[int, _Lane, int]]) -> list[int]:
        drawn: list[int] = logits.argmax(1).tolist()
        warm = [row for row, (_, lane, _) in enumerate(speaking) if lane.temperature]
        if warm:
            best, ids = logits[warm].topk(min(_TOP, logits.shape[1]))
            for number, row in enumerate(warm):
                lane = speaking[row][1]
                probs = (best[number] / lane.temperature).softmax(0).double().numpy()
                chosen = lane.rng.choice(len(probs), p=probs / probs.sum())
                drawn[row] = int(ids[number, chosen])
        return drawn

    @staticmethod
    def _recorded(lane: _Lane) -> Recorded:
        """Give zeros for the state of the last token, which was never fed."""
        states = torch.cat(lane.states)
        states = torch.cat((states, torch.zeros_like(states[:1])))
        tokens = np.array(lane.tokens, dtype=np.int32)
        return Recorded(lane.index, tokens, np.arange(len(tokens)) >= lane.prompt, states)


def stacked_states(hidden: Floats, tapped: Mapping[int, Floats], taps: tuple[int, ...]) -> Tensor:
    """Stack hidden states as recordings keep them, bf16 [n, parts, hidden].

    Args:
        hidden: fp32 [n, hidden], the final states.
        tapped: block -> its outputs, fp32 [n, hidden].
        taps: blocks to take, in order, before the final states.
    """
    parts = [*(tapped[tap] for tap in taps), hidden]
    return torch.stack([torch.from_numpy(part).to(torch.bfloat16) for part in parts], 1)
