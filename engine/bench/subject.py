"""Models to measure: our decoder, and the weights that a peer is to have as well."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.backend.cpu import NATIVE_FORMATS, choose_format
from engine.backend.decoder import Decoder
from engine.backend.native.library import Format
from engine.backend.native.matrix import NATIVE_KINDS
from engine.backend.native.pool import shared_pool
from engine.backend.native.segment import NativeBackend
from engine.bench.forward import decoder_for
from engine.bench.peer.blocks import BlockWeights
from engine.bench.recipes import tensor_kinds
from engine.commands import WeightFormat
from engine.loading.inspected_model import own_model
from engine.model.config import ModelConfig
from engine.model.local_model import LocalModel
from engine.model.weights.random_weights import RandomWeights
from engine.model.weights.readable import Readable, Weights
from engine.plan.footprint import weight_count


@dataclass(frozen=True, slots=True)
class Subject:
    """A decoder alone, without tokenizer, draft and plan; and its weights as it holds them."""

    decoder: Decoder
    config: ModelConfig
    weights: Readable


def random_subject(
    config: ModelConfig, wanted: str, threads: int | None = None, seed: int = 0
) -> Subject:
    """A model of random weights in one of `engine.bench.recipes.FORMATS`.

    Raises:
        Absent: the native backend is not built.
    """
    kinds = tensor_kinds(config, wanted)
    ours = RandomWeights(config, kinds, seed, readable=NATIVE_KINDS)
    decoder = Decoder.build(config, ours, NativeBackend(None, shared_pool(threads)))
    return Subject(decoder, config, RandomWeights(config, kinds, seed))


def stored_subject(path: Path, wish: WeightFormat, threads: int | None = None) -> Subject:
    """The model in a folder.

    Raises:
        UserFixable: it cannot be used.
    """
    config, weights, fmt = own_model(LocalModel.inspect(path), wish)
    return _subject(config, weights, fmt, threads)


def _subject(
    config: ModelConfig, weights: Weights, wish: WeightFormat, threads: int | None
) -> Subject:
    decoder = decoder_for(config, weights, wish, threads)
    fmt = NATIVE_FORMATS.get(choose_format(wish, weight_count(config)))
    if fmt is None and isinstance(weights, Readable):
        return Subject(decoder, config, weights)
    return Subject(decoder, config, BlockWeights(config, weights, fmt or Format.BF16))
