"""Decoders on the WebGPU adapter that tests use: a software one will do, and is what CI has."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from engine.backend.decoder import Decoder
from engine.backend.ledger import Account
from engine.backend.segment import Backend
from engine.backend.webgpu.device import WebGpuDevice
from engine.backend.webgpu.segment import WebGpuBackend
from engine.commands import WeightFormat
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights

NAME = "webgpu:0"


@cache
def shared_device() -> WebGpuDevice:
    """A device without a budget; opening one takes a second."""
    return WebGpuDevice(NAME)


def on_adapter(
    folder: Path,
    fmt: WeightFormat = WeightFormat.F32,
    device: WebGpuDevice | None = None,
    tile: int | None = None,
) -> Decoder:
    """The model of a folder; `tile`: rows that products take together at most."""
    config, device = open_config(folder), device or shared_device()
    backend: Backend = device.backend(fmt, "target")
    if tile is not None:
        assert device.gpu is not None
        backend = WebGpuBackend(fmt, device.gpu, Account(device.ledger, "target"), tile)
    return Decoder.build(config, ModelWeights.of_folder(config, folder), backend)
