"""Decoders on torch's "cpu" device, where accelerators' code runs in fp32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.backend.accelerator.device import TorchDevice
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import pack, unpack
from engine.backend.native.pool import shared_pool
from engine.commands import WeightFormat
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.tensors import expected_tensors
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Floats, Stretch, Weights


def accelerated(
    folder: Path, fmt: WeightFormat = WeightFormat.F32, device: TorchDevice | None = None
) -> Decoder:
    """The model of a folder."""
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    backend = (device or TorchDevice("cpu")).backend(fmt, "target")
    return Decoder.build(config, weights, backend)


@dataclass(frozen=True, slots=True)
class AsPacked:
    """What the native backend makes of weights, as floats; vectors and routers are not packed."""

    config: ModelConfig
    weights: Weights
    fmt: Format

    def float32(self, name: str) -> Floats:
        if len(self.shape(name)) < 2 or ".router." in name:
            return self.weights.float32(name)
        return unpack(pack(shared_pool(), self.weights, [name], self.fmt))

    def shape(self, name: str) -> tuple[int, ...]:
        return expected_tensors(self.config)[name]

    def kind(self, name: str) -> str:
        del name
        return "F32"

    def stretches(self, name: str) -> Iterator[Stretch]:
        yield self.float32(name)
