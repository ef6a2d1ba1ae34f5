"""The cost of a shape on one device: rounds of n rows, prompts, and long contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from statistics import median
from time import perf_counter

from engine.backend.decoder import Decoder
from engine.backend.device import Device
from engine.bench.device_work import DeviceWorkload, workload
from engine.bench.forward import DecoderSide, RoundSide, random_subject
from engine.bench.recipes import tensor_kinds
from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import EMBEDDING, expected_tensors

ROWS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class SpeedSizes:
    """Sizes of a measurement.

    Attributes:
        rows: of verified chains, 1 among them.
        contexts: tokens before a round; chains of all sizes are verified behind the first.
        prefills: tokens of prompts.
        seconds: about which each part is repeated.
        most, least: repetitions.
    """

    rows: tuple[int, ...] = ROWS
    contexts: tuple[int, ...] = (512, 8192)
    prefills: tuple[int, ...] = (512, 2048)
    seconds: float = 1.0
    most: int = 20
    least: int = 3


@dataclass(frozen=True, slots=True)
class LoadTime:
    """Time of making random weights and bringing them to the device, and their bytes.

    `read`: bytes that a forward of one row reads, which is without an embedding of its own.
    """

    seconds: float
    weight_bytes: int
    read: int
    signature: str


@dataclass(frozen=True, slots=True)
class TimedRounds:
    """Median seconds of a round by its rows, behind so many tokens; the target's draws included.

    `work` is what the device was asked to do for the first of `rows`, and for the last.
    """

    context: int
    seconds: dict[int, float]
    work: dict[int, DeviceWorkload] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TimedPrefill:
    """Median seconds of a prompt of so many tokens, to the logits of the last one."""

    tokens: int
    seconds: float
    work: DeviceWorkload


def measure_speed(
    device: Device, config: ModelConfig, wanted: str, sizes: SpeedSizes
) -> Iterator[LoadTime | TimedRounds | TimedPrefill]:
    """Measure a shape in one of `engine.bench.recipes.FORMATS`, and tell each figure at once.

    Raises:
        OutOfMemory: it does not fit on the device.
    """
    start = perf_counter()
    decoder = random_subject(config, wanted, device=device).decoder
    spent = perf_counter() - start
    yield LoadTime(spent, decoder.weight_bytes, read_bytes(config, wanted), decoder.signature)
    first, *longer = sizes.contexts
    yield _rounds(device, decoder, first, sizes.rows, sizes)
    for tokens in sizes.prefills:
        yield _prefill(device, decoder, tokens, sizes)
    for context in longer:
        yield _rounds(device, decoder, context, sizes.rows[:1], sizes)


def read_bytes(config: ModelConfig, wanted: str) -> int:
    """Bytes of matrices that a forward of one row reads."""
    shapes = expected_tensors(config)
    total = 0.0
    for name, kind in tensor_kinds(config, wanted).items():
        if name != EMBEDDING or config.tie_word_embeddings:
            stored = KIND_OF_NAME[kind]
            total += prod(shapes[name]) / stored.numbers * stored.nbytes
    return round(total)


def _rounds(
    device: Device, decoder: Decoder, context: int, rows: tuple[int, ...], sizes: SpeedSizes
) -> TimedRounds:
    side = RoundSide(decoder, context)
    side.forwards(rows, 3)  # kernels compiled, forwards recorded
    times: dict[int, list[float]] = {count: [] for count in rows}
    for count, spent in times.items():
        _repeat(lambda n=count, into=spent: into.extend(side.forwards((n,), 1)[0]), sizes)  # type: ignore[misc]
    work = {
        count: workload(device, lambda n=count: side.forwards((n,), 1))  # type: ignore[misc]
        for count in dict.fromkeys((rows[0], rows[-1]))
    }
    return TimedRounds(context, {count: median(spent) for count, spent in times.items()}, work)


def _prefill(device: Device, decoder: Decoder, tokens: int, sizes: SpeedSizes) -> TimedPrefill:
    side = DecoderSide(decoder, tokens)
    side.prefills(1)
    spent: list[float] = []
    _repeat(lambda: spent.extend(side.prefills(1)), sizes)
    return TimedPrefill(tokens, median(spent), workload(device, lambda: side.prefills(1)))


def _repeat(work: Callable[[], object], sizes: SpeedSizes) -> None:
    end = perf_counter() + sizes.seconds
    for run in range(sizes.most):
        work()
        if run + 1 >= sizes.least and perf_counter() > end:
            return
