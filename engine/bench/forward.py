"""The cost of one forward: plain decoding, verification of n tokens, prefill.

A `Side` is something that can be measured: our decoder, or a peer. Sides take turns in one run, so
that a drift of the machine hits all alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Protocol, TypeVar

from engine.backend.cpu import NATIVE_FORMATS, CpuDevice, choose_format
from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.backend.native.library import Format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.pool import shared_pool
from engine.backend.native.segment import NativeBackend
from engine.backend.round import VerifyRequest
from engine.backend.segment import Backend
from engine.bench.peer.export import BlockWeights
from engine.bench.recipes import tensor_kinds
from engine.commands import KvType, WeightFormat
from engine.loading.inspected_model import own_model
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.model.weights.random_weights import RandomWeights
from engine.model.weights.readable import Readable, Weights
from engine.plan.footprint import weight_count
from engine.request import SamplingParams
from engine.speculative.sampler import Sampler

CONTEXT = 512
"""Committed tokens before anything is timed, and length of a timed prompt, unless told."""

MOST_ROWS = 64
"""Most new tokens of a timed forward."""

_GROWTH = 512
"""Tokens by which the context of `GoingOn` grows at most."""

TURN = 4
"""Runs of one side before the next one's turn."""


T = TypeVar("T")


class Side(Protocol):
    """A side of a comparison."""

    def awake(self) -> AbstractContextManager[None]:
        """Let it compute; outside of this it takes no processor time."""
        ...

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        """Seconds of each of `runs` forwards over each of `counts` new tokens behind the context.

        Logits of all rows are computed. The counts take turns.
        """
        ...

    def prefills(self, runs: int) -> list[float]:
        """Seconds from an empty sequence to the logits of a prompt's last token."""
        ...


def decoder_for(
    config: ModelConfig,
    weights: Weights,
    wish: WeightFormat,
    threads: int | None = None,
    kv: KvType = KvType.F16,
) -> Decoder:
    """A decoder alone, without tokenizer, draft and plan."""
    chosen = choose_format(wish, weight_count(config))
    backend = CpuDevice(threads=threads).backend(chosen, "target", kv=kv)
    return Decoder.build(config, weights, backend)


class DecoderSide:
    """Our own side. Its threads sleep when it has nothing to do."""

    def __init__(self, decoder: Decoder, context: int = CONTEXT) -> None:
        self._decoder, self._context = decoder, context
        self._state = decoder.new_state(context + MOST_ROWS)

    def awake(self) -> AbstractContextManager[None]:
        """Our own threads sleep by themselves."""
        return nullcontext()

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        """See `Side`; the commit is part of it."""
        if len(self._state) != self._context:
            self._fill()
        times: list[list[float]] = [[] for _ in counts]
        for _ in range(runs):
            for count, spent in zip(counts, times, strict=True):
                tokens = next_tokens(self._decoder.config.vocab_size, count)
                start = perf_counter()
                self._compute(tokens)
                spent.append(perf_counter() - start)
                self._state.crop(self._context)
        return times

    def _compute(self, tokens: list[int]) -> None:
        """Run a forward behind the context, and commit."""
        self._decoder.forward(self._state, tokens)
        self._state.commit(range(len(tokens)))

    def _fill(self) -> None:
        """Reach the context; beyond `CONTEXT` tokens their keys and values are repeated.

        So a long one is there in seconds: what a forward costs depends on their number alone.
        States of delta layers are none of single tokens, and are reached by reading them.
        """
        state, vocab = self._state, self._decoder.config.vocab_size
        state.crop(0)
        first = prompt(vocab, self._context if state.recurrent else min(CONTEXT, self._context))
        self._decoder.forward(state, first, logit_rows=(len(first) - 1,))
        state.commit(range(len(first)))
        while (held := len(state)) < self._context:
            count = min(held, self._context - held)
            for cache in state.caches:
                cache.move(range(count), held)
            state.extend(prompt(vocab, count))

    def prefills(self, runs: int) -> list[float]:
        """See `Side`; the prompt stays as the context."""
        tokens = prompt(self._decoder.config.vocab_size, self._context)
        times = []
        for _ in range(runs):
            self._state.crop(0)
            start = perf_counter()
            self._decoder.forward(self._state, tokens, logit_rows=(len(tokens) - 1,))
            self._state.commit(range(len(tokens)))
            times.append(perf_counter() - start)
        return times


class RoundSide(DecoderSide):
    """Our own side as rounds pay for it: the target draws, where it lies, down a drafted chain."""

    def __init__(self, decoder: Decoder, context: int = CONTEXT) -> None:
        super().__init__(decoder, context)
        self._draws = Sampler(SamplingParams()).native(decoder.config.vocab_size)

    def _compute(self, tokens: list[int]) -> None:
        """Verify a chain; without the native library its logits are all that is computed."""
        if self._draws is None:
            super()._compute(tokens)
            return
        count = len(tokens)
        request = VerifyRequest(tokens, range(-1, count - 1), tokens[:1], count)
        self._decoder.verify(self._state, self._draws, request)


class GoingOn(DecoderSide):
    """Our own side as rounds follow each other: some tokens of every forward stay.

    A recurrent state takes them in with the next one. The context grows meanwhile, and is filled
    anew where it has no room.

    Args:
        decoder: see `DecoderSide`.
        context: see `DecoderSide`.
        kept: tokens of a forward that stay; None: all.
    """

    def __init__(self, decoder: Decoder, context: int, kept: int | None) -> None:
        super().__init__(decoder, context)
        self._state = decoder.new_state(context + _GROWTH)
        self._kept = kept

    def forwards(self, counts: Sequence[int], runs: int) -> list[list[float]]:
        """See `Side`; every timed forward follows one of as many tokens."""
        times: list[list[float]] = [[] for _ in counts]
        for _ in range(runs):
            for count, spent in zip(counts, times, strict=True):
                if not self._context <= len(self._state) <= self._context + _GROWTH - 2 * count:
                    self._fill()
                tokens = next_tokens(self._decoder.config.vocab_size, count)
                self._compute(tokens)
                start = perf_counter()
                self._compute(tokens)
                spent.append(perf_counter() - start)
        return times

    def _compute(self, tokens: list[int]) -> None:
        """Run a forward behind what stayed of the one before."""
        self._decoder.forward(self._state, tokens)
        self._state.commit(range(len(tokens) if self._kept is None else self._kept))
        self._state.discard()


def prompt(vocab: int, length: int = CONTEXT) -> list[int]:
    """The tokens that a measurement begins with."""
    return [token % vocab for token in range(length)]


def next_tokens(vocab: int, count: int) -> list[int]:
    """The tokens of a timed forward."""
    return [token % vocab for token in range(7, 7 + count)]


def forwards_in_turns(
    sides: Sequence[Side], counts: Sequence[int], runs: int
) -> list[dict[int, float]]:
    """Time `runs` forwards over each of `counts` new tokens, side by side.

    Returns:
        For each side the median seconds by count, logits of all rows and commit included.
    """
    times: list[list[list[float]]] = [[[] for _ in counts] for _ in sides]
    for side, spent, share in _turns(sides, times, runs):
        for collected, added in zip(spent, side.forwards(counts, share), strict=True):
            collected.extend(added)
    return [dict(zip(counts, map(median, spent), strict=True)) for spent in times]


def prefills_in_turns(sides: Sequence[Side], runs: int, length: int = CONTEXT) -> list[float]:
    """Median tokens per second of processing a prompt of `length` tokens, side by side."""
    times: list[list[float]] = [[] for _ in sides]
    for side, spent, _ in _turns(sides, times, runs, most=1):
        spent.extend(side.prefills(1))
    return [length / median(spent) for spent in times]


def _turns(
    sides: Sequence[Side], results: Sequence[T], runs: int, most: int = TURN
) -> Iterator[tuple[Side, T, int]]:
    """Every side with its result and a share of the runs, again and again, until all are done."""
    for first in range(0, runs, most):
        for side, result in zip(sides, results, strict=True):
            with side.awake():
                side.forwards((1,), 2)  # caches and threads are cold after a switch
                yield side, result, min(most, runs - first)


@dataclass(frozen=True, slots=True)
class Subject:
    """A decoder alone, without tokenizer, draft and plan; and its weights as it holds them."""

    decoder: Decoder
    config: ModelConfig
    weights: Readable


def random_subject(
    config: ModelConfig,
    wanted: str,
    threads: int | None = None,
    kv: KvType = KvType.F16,
    *,
    seed: int = 0,
    device: Device | None = None,
) -> Subject:
    """A model of random weights in one of `engine.bench.recipes.FORMATS`, on a device or the CPU.

    Raises:
        Absent: it is for the CPU, and the native backend is not built.
        OutOfMemory: it does not fit on the device.
    """
    kinds = tensor_kinds(config, wanted)
    ours = RandomWeights(config, kinds, seed, readable=NATIVE_KINDS)
    backend: Backend = (
        NativeBackend(None, shared_pool(threads), kv=kv)
        if device is None
        else device.backend(WeightFormat.STORED, "target", kv=kv)
    )
    decoder = Decoder.build(config, ours, backend)
    return Subject(decoder, config, RandomWeights(config, kinds, seed))


def stored_subject(
    path: Path, wish: WeightFormat, threads: int | None = None, kv: KvType = KvType.F16
) -> Subject:
    """The model in a folder.

    Raises:
        UserFixable: it cannot be used.
    """
    config, weights, fmt = own_model(LocalModel.inspect(path), wish)
    return _subject(config, weights, fmt, threads, kv)


def _subject(
    config: ModelConfig, weights: Weights, wish: WeightFormat, threads: int | None, kv: KvType
) -> Subject:
    decoder = decoder_for(config, weights, wish, threads, kv)
    fmt = NATIVE_FORMATS.get(choose_format(wish, weight_count(config)))
    if fmt is None and isinstance(weights, Readable):
        return Subject(decoder, config, weights)
    return Subject(decoder, config, BlockWeights(config, weights, fmt or Format.BF16))
