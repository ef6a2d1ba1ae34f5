"""What an accelerator makes of its memory's speed: in products, and in decoding as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.bench.answers import Wishes
from engine.bench.device_products import ProductTimes, bandwidth, time_products
from engine.bench.drafts import RandomPair
from engine.bench.memory_use import MemoryUse
from engine.bench.placement import Known, Placing, plan_models
from engine.bench.shape_speed import measure_shape
from engine.commands import ALL_LAYERS, Mode
from engine.errors import Absent
from engine.hardware.memory import give_memory_back
from engine.language import sentences, tr
from engine.machine.facts import Accelerator, Machine

GIB = 2**30
PRODUCT_GOAL = 0.5
"""Of the measured bandwidth, for products on memory that is as fast as HBM."""
DECODE_GOALS = {"bf16": 0.65, "q4_0": 0.35}
"""Likewise for decoding as a whole."""

_SHARE = 0.75
"""Of the free memory that weights may take."""


@dataclass(frozen=True, slots=True)
class DecodeSpeed:
    """A whole model on the accelerator, decoding plainly. Times in seconds.

    Attributes:
        bytes_per_token: weights, keys and values that a token needs to have read.
        verify: of a forward by its rows.
    """

    tokens_per_s: float
    bytes_per_token: float
    verify: dict[int, float]
    memory: dict[str, MemoryUse]

    @property
    def bytes_per_s(self) -> float:
        """Weights, keys and values that are got through."""
        return self.tokens_per_s * self.bytes_per_token


@dataclass(frozen=True, slots=True)
class AcceleratorSpeed:
    """All that was measured.

    Attributes:
        bandwidth: bytes per second of the device's memory.
        products: by format.
        decode: by format; a format is missing that does not fit.
    """

    accelerator: Accelerator
    bandwidth: float
    products: dict[str, ProductTimes]
    decode: dict[str, DecodeSpeed]


def first_accelerator(machine: Machine) -> Accelerator:
    """The one that is measured; none that is simulated, which says itself how fast it is.

    Raises:
        Absent: there is none.
    """
    for found in machine.usable:
        if not found.simulated:
            return found
    reasons = [found.unusable for found in machine.accelerators if found.unusable]
    raise Absent(
        sentences(tr("There is no accelerator here that Duotail can use."), *reasons),
        tr("Run this on a machine with a graphics card."),
    )


def measure_accelerator(
    known: Known,
    shape: str,
    formats: Sequence[str],
    wishes: Wishes,
    *,
    read_bytes: int = GIB,
    progress: Callable[[str], None] = lambda _stage: None,
) -> AcceleratorSpeed:
    """Measure the first accelerator with a published shape's random weights.

    Args:
        known: what is here.
        shape: a dense one.
        formats: of `engine.bench.recipes.FORMATS`, each on its own.
        wishes: tokens and runs of decoding, rows of forwards.
        read_bytes: of memory, to measure its bandwidth with.
        progress: told what is being done.

    Raises:
        Absent: there is no accelerator.
        UserFixable: it cannot be used.
    """
    machine = known[0]
    found = first_accelerator(machine)
    free = found.memory_total if found.memory_free is None else found.memory_free
    room = int((free or 0) * _SHARE)
    progress(tr("Reading the memory of {name}").format(name=found.name))
    speed = bandwidth(found.device, min(read_bytes, room // 2))
    products: dict[str, ProductTimes] = {}
    decode: dict[str, DecodeSpeed] = {}
    for wanted in formats:
        pair = RandomPair.published(shape, wanted)
        progress(tr("Multiplying with {format}").format(format=wanted))
        products[wanted] = time_products(found.device, pair.target, wishes.rows, room)
        give_memory_back()
        if pair.target.facts.footprint.weight_bytes <= room:
            progress(tr("Decoding with {format}").format(format=wanted))
            decode[wanted] = _decode(known, pair, wishes)
            give_memory_back()
    return AcceleratorSpeed(found, speed, products, decode)


def _decode(known: Known, pair: RandomPair, wishes: Wishes) -> DecodeSpeed:
    plan = plan_models(known, pair, Placing(Mode.PLAIN, layers_on_gpu=ALL_LAYERS), wishes)
    measured = measure_shape(pair, wishes, plan, known[0])
    held = pair.target.facts.footprint
    weights = sum(block.nbytes for block in held.blocks) + held.head.nbytes
    tokens = wishes.prompt + wishes.tokens / 2
    return DecodeSpeed(
        tokens_per_s=measured.plain_tokens_per_s,
        bytes_per_token=weights + held.kv_bytes_per_token * tokens,
        verify=measured.verify,
        memory=measured.memory,
    )
