"""What one forward costs: plain decoding, verification of n tokens, prefill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter

from engine.backend.cpu import choose_format, cpu_backend
from engine.backend.segment import Weights
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.decoder import Decoder
from engine.model.sequence import SequenceState
from engine.plan.footprint import weight_count

CONTEXT = 512
"""Committed tokens before anything is timed."""


@dataclass(frozen=True, slots=True)
class ForwardTimes:
    """Median seconds of a forward over n new tokens, logits of all rows and commit included."""

    context: int
    seconds: dict[int, float]
    runs: int

    @property
    def tokens_per_s(self) -> float:
        """Plain decoding speed."""
        return 1 / self.seconds[1]


def decoder_for(
    config: ModelConfig, weights: Weights, wish: WeightFormat, threads: int | None = None
) -> Decoder:
    """A decoder alone, without tokenizer, draft and plan."""
    chosen = choose_format(wish, weight_count(config))
    return Decoder.build(config, weights, cpu_backend(chosen, threads))


def time_forwards(
    decoder: Decoder, counts: Sequence[int], *, context: int = CONTEXT, runs: int = 20
) -> ForwardTimes:
    """Time forwards over each of `counts` new tokens behind `context` committed ones.

    The counts take turns, so that a drift of the machine hits all alike.
    """
    state = _filled(decoder, context, most=max(counts))
    times: dict[int, list[float]] = {count: [] for count in counts}
    for _ in range(runs):
        for count in counts:
            tokens = [token % decoder.config.vocab_size for token in range(7, 7 + count)]
            start = perf_counter()
            decoder.forward(state, tokens)
            state.commit(range(count))
            times[count].append(perf_counter() - start)
            state.crop(context)
    return ForwardTimes(context, {n: median(spent) for n, spent in times.items()}, runs)


def time_prefill(decoder: Decoder, *, tokens: int = CONTEXT, runs: int = 3) -> float:
    """Median tokens per second of processing a prompt of `tokens` tokens."""
    speeds = []
    for _ in range(runs):
        start = perf_counter()
        _filled(decoder, tokens, most=1)
        speeds.append(tokens / (perf_counter() - start))
    return median(speeds)


def _filled(decoder: Decoder, tokens: int, most: int) -> SequenceState:
    state = decoder.new_state(tokens + most)
    prompt = [token % decoder.config.vocab_size for token in range(tokens)]
    decoder.forward(state, prompt, logit_rows=())
    state.commit(range(tokens))
    return state
