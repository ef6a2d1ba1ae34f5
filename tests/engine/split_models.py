"""Models cut into shares, and the ways to cut them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from full_models import RandomWeights, full_config

from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.pool import ThreadPool, shared_pool
from engine.backend.native.segment import NativeBackend
from engine.backend.segment import Backend, Share
from engine.commands import KvType
from engine.machine.facts import CPU
from engine.model.config import ModelConfig
from engine.model.families import open_config
from engine.model.weights.model_weights import ModelWeights
from engine.model.weights.readable import Weights

CUTS: dict[str, Callable[[int], Sequence[int]]] = {
    "embedding apart": lambda _layers: (0,),
    "in two": lambda _layers: (1,),
    "embedding apart, in two": lambda layers: (0, layers - 1),
    "head apart": lambda layers: (layers,),
    "every block": lambda layers: range(layers + 1),
}
"""Before which blocks a model is cut."""


def cut(layers: int, borders: Sequence[int], devices: Sequence[str] = (CPU,)) -> list[Share]:
    """The shares between the borders, on the devices in turn."""
    edges = [0, *borders, layers]
    last = len(edges) - 2
    return [
        Share(
            devices[index % len(devices)],
            range(edges[index], edges[index + 1]),
            embeds=index == 0,
            heads=index == last,
        )
        for index in range(len(edges) - 1)
    ]


def split_decoder(
    config: ModelConfig, weights: Weights, borders: Sequence[int], backend: Backend
) -> Decoder:
    """A model of several segments of one backend."""
    return Decoder.placed(config, weights, cut(config.num_layers, borders), {CPU: backend})


def split_folder(
    folder: Path, borders: Sequence[int], fmt: Format, pool: ThreadPool | None = None
) -> Decoder:
    """The native model of a folder in several segments."""
    config = open_config(folder)
    weights = ModelWeights.of_folder(config, folder)
    return split_decoder(config, weights, borders, NativeBackend(fmt, pool or shared_pool()))


def split_full_decoder(
    fmt: Format | None,
    borders: Sequence[int],
    pool: ThreadPool | None = None,
    kv: KvType = KvType.F16,
) -> Decoder:
    """The model with every feature in several segments."""
    config = full_config()
    backend = NativeBackend(fmt, pool or shared_pool(), kv=kv)
    return split_decoder(config, RandomWeights(config), borders, backend)
