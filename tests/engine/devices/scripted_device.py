"""A device whose forwards take what a script says, on a clock that only they move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from engine.backend.ledger import Ledger
from engine.backend.native.workspace import kv_token_bytes
from engine.backend.segment import SegmentOutput
from engine.backend.step import Step
from engine.commands import KvType, WeightFormat
from engine.model.config import ModelConfig
from engine.model.gguf.header import KIND_OF_NAME
from engine.model.tensors import expected_tensors
from engine.model.weights.readable import Floats, Readable, Weights


@dataclass(slots=True)
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds; `product` is of a byte by type and rows."""

    product: Callable[[str, int], float]
    forward: float = 60e-6
    block: float = 20e-6
    row: float = 5e-6
    kv_byte: float = 4e-11
    query_byte: float = 6e-12
    kv8_byte: float = 5e-11
    query8_byte: float = 9e-12


class ScriptedCache:
    nbytes = 0

    def copy_prefix(self, other: ScriptedCache, slots: int) -> None:
        pass


class ScriptedSegment:
    def __init__(
        self, device: ScriptedDevice, config: ModelConfig, kind: str, nbytes: int, kv: KvType
    ) -> None:
        self._device, self._config, self._kind, self.weight_bytes = device, config, kind, nbytes
        self._kv = kv

    def new_cache(self, _: int) -> ScriptedCache:
        return ScriptedCache()

    def run(self, step: Step, _: ScriptedCache, hidden: Floats | None) -> SegmentOutput:
        assert hidden is not None
        config, costs, rows = self._config, self._device.costs, len(step.tokens)
        assert hidden.shape == (rows, config.hidden_size)
        own = config.typical
        blocks, queries = config.num_layers, own.heads // own.kv_heads
        positions = float(np.mean(step.positions)) + 1
        kv = kv_token_bytes(own.kv_heads, own.head_dim, self._kv) * positions
        eight = self._kv is KvType.Q8
        byte = costs.kv8_byte if eight else costs.kv_byte
        query_byte = costs.query8_byte if eight else costs.query_byte
        seconds = costs.forward + self.weight_bytes * costs.product(self._kind, rows)
        seconds += blocks * (costs.block + costs.row * (rows - 1))
        seconds += blocks * kv * (byte + rows * queries * query_byte)
        self._device.spend(seconds)
        return SegmentOutput(hidden, None, {})


@dataclass
class ScriptedDevice:
    name: str
    clock: Clock
    costs: Costs
    disturbed: Callable[[int], float] = lambda _: 1.0
    """How much longer a forward takes, by its number."""
    making: Callable[[ModelConfig], float] = lambda _: 0.0
    """Seconds to make a model's weights."""
    forwards: int = 0
    failing: Exception | None = None

    @property
    def ledger(self) -> Ledger:
        return Ledger(self.name, self.name)

    def backend(self, weights: WeightFormat, _: str, *, kv: KvType = KvType.F16) -> ScriptedBackend:
        assert weights is WeightFormat.STORED
        return ScriptedBackend(self, kv)

    def spend(self, seconds: float) -> None:
        if self.failing is not None:
            raise self.failing
        self.forwards += 1
        self.clock.now += seconds * self.disturbed(self.forwards)


@dataclass(frozen=True, slots=True)
class ScriptedBackend:
    device: ScriptedDevice
    kv: KvType

    def compile(
        self, config: ModelConfig, weights: Weights, _: range, *, embed: bool, head: bool
    ) -> ScriptedSegment:
        self.device.clock.now += self.device.making(config)
        assert not embed
        assert not head
        assert isinstance(weights, Readable)
        kind = weights.kind("model.layers.0.mlp.up_proj.weight")
        stored = KIND_OF_NAME[kind]
        matrices = (
            prod(shape)
            for name, shape in expected_tensors(config).items()
            if len(shape) == 2 and name.startswith("model.layers.")
        )
        nbytes = sum(matrices) * stored.nbytes // stored.numbers
        return ScriptedSegment(self.device, config, kind, nbytes, self.kv)
