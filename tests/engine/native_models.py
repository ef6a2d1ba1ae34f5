"""Native decoders of the tests' small models."""

from __future__ import annotations

from pathlib import Path

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.native.segment import NativeBackend
from engine.commands import KvType
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights


def native_decoder(
    folder: Path, fmt: Format, pool: ThreadPool | None = None, kv: KvType = KvType.F16
) -> Decoder:
    """The model of a folder, its weights packed to `fmt`."""
    config = open_config(folder)
    backend = NativeBackend(fmt, pool or shared_pool(), kv=kv)
    return Decoder.build(config, ModelWeights.of_folder(config, folder), backend)
